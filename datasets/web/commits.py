"""The history of a dataset: commits, what each changed, and where each is cached, live while something moves."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from accounts.web.requests import PageRequest, text
from datasets.engine.cache_states import UNFINISHED, CacheState
from datasets.models import CachedCommit, Commit
from datasets.selectors import caches, datasets, files
from datasets.selectors import commits as selectors
from datasets.selectors.commits import CommitView
from datasets.services import commits
from datasets.web import heading
from datasets.web.paths import link_path, show_path

_ROWS = 30
_CHANGES = 100


@dataclass(frozen=True)
class CopyView:
    """A cached copy and when idleness ends it."""

    copy: CachedCommit
    evicts_at: datetime | None


@dataclass(frozen=True)
class Row:
    """A commit with its copies."""

    view: CommitView
    copies: list[CopyView]


def commits_page(request: PageRequest, project: str, name: str) -> HttpResponse:
    """List the commits behind a branch, newest first; htmx asks for what moves, once a second."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    ref = text(request, "ref") or dataset.default_branch
    page = selectors.list_commits(request.actor, dataset, ref=ref, cursor=text(request, "cursor"), limit=_ROWS)
    # Read once: a copy that the rows show on its way is one of those that keep the page asking.
    copies = list(caches.list_cached_commits(actor=request.actor).filter(dataset=dataset).order_by("site__name", "pk"))
    context = {
        "rows": _rows(selectors.view_commits(list(page.items)), copies),
        "moving": [copy for copy in copies if copy.state in UNFINISHED],
        "moves": any(copy.state in {*UNFINISHED, CacheState.EVICTING} for copy in copies),
        "dataset": dataset,
        "ref": ref,
    }
    if request.htmx:
        return render(request, "datasets/commits_live.html", context)
    context |= heading.of(request.actor, dataset, tab="commits")
    context |= {"next_cursor": page.next_cursor, "refs": heading.references(request.actor, dataset)}
    return render(request, "datasets/commits.html" if context["rows"] else "datasets/no_commits.html", context)


def compare_page(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Show what changed between two commits; without `base`, against the parent."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    commit = selectors.get_commit(request.actor, dataset, text(request, "ref") or dataset.default_branch)
    base_name = text(request, "base") or commit.parent_id
    context = heading.of(request.actor, dataset, tab="commits") | {"commit": commit}
    if base_name is None:
        return render(request, "datasets/compare.html", context)
    base = selectors.get_commit(request.actor, dataset, base_name)
    diff = files.list_differences(request.actor, base, commit, cursor=text(request, "cursor"), limit=_CHANGES)
    changes = [
        {
            "kind": files.kind_of(change),
            "name": show_path(change.path),
            "link": link_path(change.path),
            "before": change.before.size if change.before else None,
            "after": change.after.size if change.after else None,
        }
        for change in diff.page.items
    ]
    context |= {"base": base, "diff": diff, "changes": changes, "next_cursor": diff.page.next_cursor}
    return render(request, "datasets/compare.html", context)


@require_POST
def revert(request: PageRequest, project: str, name: str, commit_id: str) -> HttpResponse:
    """Make the tree of an earlier commit the newest version again."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    commit = selectors.get_commit(request.actor, dataset, commit_id)
    branch = request.POST.get("branch") or dataset.default_branch
    made = commits.revert(actor=request.actor, dataset=dataset, commit=commit, branch_name=branch)
    messages.success(request, f"{branch} is at {made.short}, with the files of {commit.short}.")
    return redirect("datasets:commits", project=project, name=name)


def _rows(views: Sequence[CommitView], copies: Sequence[CachedCommit]) -> list[Row]:
    by_commit: dict[str, list[CopyView]] = {}
    for copy in copies:
        by_commit.setdefault(copy.commit_id, []).append(CopyView(copy, caches.evicts_at(copy)))
    return [Row(view, by_commit.get(view.commit.id, [])) for view in views]


def commit_of(request: PageRequest, project: str, name: str, commit_id: str) -> Commit:
    """Return the commit that an address names, with its dataset at hand."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    return selectors.get_commit(request.actor, dataset, commit_id)
