"""The history of a dataset: commits, what each changed, and where each is cached, live while something moves."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.permissions import Level
from accounts.web.requests import PageRequest, text
from core import clock
from datasets.engine.cache_states import UNFINISHED, CacheState
from datasets.models import CachedCommit, Commit
from datasets.selectors import caches, datasets, differences, in_place
from datasets.selectors import commits as selectors
from datasets.selectors.commits import CommitView
from datasets.services import commits
from datasets.web import heading

_ROWS = 30
_BRANCHES = 200
_SOON_S = 6 * 3600


@dataclass(frozen=True)
class CopyView:
    """A cached copy and when idleness ends it."""

    copy: CachedCommit
    evicts_at: datetime | None

    @property
    def goes_soon(self) -> bool:
        """Whether idleness ends it within hours."""
        return self.evicts_at is not None and (self.evicts_at - clock.now()).total_seconds() < _SOON_S


@dataclass(frozen=True)
class CommitRow:
    """A commit with its copies. `is_in_source`: some of its content lies in a source, and not in the store."""

    view: CommitView
    copies: list[CopyView]
    is_in_source: bool


def commits_page(request: PageRequest, project: str, name: str) -> HttpResponse:
    """List the commits behind a branch, newest first; htmx asks for what moves, once a second."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    ref = text(request, "ref") or dataset.default_branch
    page = selectors.list_commits(request.actor, dataset, ref=ref, cursor=text(request, "cursor"), limit=_ROWS)
    # Read once: a copy that the rows show on its way is one of those that keep the page asking.
    copies = list(caches.list_cached_commits(actor=request.actor).filter(dataset=dataset).order_by("site__name", "pk"))
    context = {
        "rows": _rows(selectors.view_commits(page.items), copies, in_place.list_referring(dataset, page.items)),
        "moving": [copy for copy in copies if copy.state in UNFINISHED],
        "moves": any(copy.state in {*UNFINISHED, CacheState.EVICTING} for copy in copies),
        "dataset": dataset,
        "ref": ref,
        "may_write": (request.actor.level_in(dataset.project_id) or 0) >= Level.WRITE,
    }
    if request.htmx:
        return render(request, "datasets/commits_live.html", context)
    context |= heading.of(request.actor, dataset, tab="commits", ref=ref)
    context |= {"next_cursor": page.next_cursor}
    if context["rows"]:
        context["commit"] = selectors.get_commit(request.actor, dataset, ref)
    return render(request, "datasets/commits.html" if context["rows"] else "datasets/no_commits.html", context)


def commit_dialog(request: PageRequest, project: str, name: str, commit_id: str) -> HttpResponse:
    """Offer what can be done with a commit: revert to it, or name it. Without script it is a page of its own."""
    commit = commit_of(request, project, name, commit_id)
    dataset = commit.dataset
    is_revert = text(request, "what") != "name"
    branches = list(selectors.list_branches(request.actor, dataset).select_related("head").order_by("name")[:_BRANCHES])
    branch_name = text(request, "branch") or dataset.default_branch
    branch = next((each for each in branches if each.name == branch_name), None)
    counts = None
    if is_revert and branch is not None and branch.head is not None:
        branch.head.dataset = dataset
        counts = differences.count_differences(request.actor, branch.head, commit)
    context = {
        "commit": commit,
        "dataset": dataset,
        "project_name": project,
        "branches": branches,
        "branch": branch,
        "counts": counts,
        "title": f"Revert to {commit.short}?" if is_revert else f"Name {commit.short}",
        "form": "datasets/revert_form.html" if is_revert else "datasets/name_form.html",
        "is_revert": is_revert,
        "may_write": (request.actor.level_in(dataset.project_id) or 0) >= Level.WRITE,
    }
    return render(request, "datasets/commit_dialog.html" if request.htmx else "datasets/commit_page.html", context)


@require_POST
def revert(request: PageRequest, project: str, name: str, commit_id: str) -> HttpResponse:
    """Make the tree of an earlier commit the newest version again."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    commit = selectors.get_commit(request.actor, dataset, commit_id)
    branch = request.POST.get("branch") or dataset.default_branch
    made = commits.revert(
        actor=request.actor,
        dataset=dataset,
        commit=commit,
        branch_name=branch,
        message=request.POST.get("message", "").strip(),
    )
    messages.success(request, f"{branch} is at {made.short}, with the files of {commit.short}.")
    return redirect(f"{reverse('datasets:commits', args=[project, name])}?ref={branch}")


def _rows(views: Sequence[CommitView], copies: Sequence[CachedCommit], in_source: Collection[str]) -> list[CommitRow]:
    by_commit: dict[str, list[CopyView]] = {}
    for copy in copies:
        by_commit.setdefault(copy.commit_id, []).append(CopyView(copy, caches.evicts_at(copy)))
    return [CommitRow(view, by_commit.get(view.commit.id, []), view.commit.id in in_source) for view in views]


def commit_of(request: PageRequest, project: str, name: str, commit_id: str) -> Commit:
    """Return the commit that an address names, with its dataset at hand."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    return selectors.get_commit(request.actor, dataset, commit_id)
