"""Merging on a page: what would come, and of each file that both sides changed both versions and a choice."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.web.requests import PageRequest, text
from core.errors import InvalidInput
from datasets.engine.merges import Resolution
from datasets.engine.text_diff import pair_lines
from datasets.errors import MergeConflicts, StaleParent
from datasets.models import Dataset
from datasets.selectors import commits, datasets, merges
from datasets.selectors.merges import MergePlan
from datasets.services import merges as services
from datasets.web import heading
from datasets.web.compare import Side, lines_of, side_of, why_incomparable
from datasets.web.paths import link_path, read_path
from nearline.content.diff import Conflict
from nearline.content.paths import show_path

# More are decided together.
_ROWS = 200
_FIELD = "keep-"


@dataclass(frozen=True)
class ConflictRow:
    """A file that both changed. `field` names its choice in the form; `is_open`: it was sent without one."""

    field: str
    choice: str
    is_open: bool
    name: str
    link: str
    base: Side | None
    ours: Side | None
    theirs: Side | None
    is_selected: bool

    @property
    def is_in_the_way(self) -> bool:
        """Whether only `theirs` has it, and something else of `ours` stands where it belongs."""
        return self.theirs is not None and self.ours is None and self.base is None

    @property
    def has_thumbnail(self) -> bool:
        """Whether there is a picture on a side."""
        return any(side is not None and side.has_thumbnail for side in (self.ours, self.theirs))


def merge_page(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Show what a merge of `source` into `into` would bring, and ask about the files that both changed."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    return _show(request, dataset, text(request, "source") or "", text(request, "into") or dataset.default_branch)


def _show(
    request: PageRequest,
    dataset: Dataset,
    source: str,
    into: str,
    sent: Mapping[str, str] | None = None,
    *,
    has_moved: bool = False,
) -> HttpResponse:
    """Show the page; of what was `sent` and refused, with its choices and a mark at each file without one.

    `has_moved`: it was refused because one of both has a newer commit.
    """
    context = heading.of(request.actor, dataset, tab="names") | {"source": source, "into": into}
    if source:
        branch = commits.get_branch(request.actor, dataset, into)
        theirs = commits.get_commit(request.actor, dataset, source)
        ours = commits.get_commit(request.actor, dataset, into)
        plan = merges.plan_merge(request.actor, theirs, ours)
        selected = read_path(request, "file")
        rows = [_row_of(conflict, selected, sent) for conflict in plan.conflicts]
        context |= {
            "plan": plan,
            "branch": branch,
            "counts": merges.count_changes(request.actor, plan),
            "rows": rows[:_ROWS],
            "open_files": sum(row.is_open for row in rows),
            "message": sent.get("message", "") if sent else "",
            "otherwise": sent.get("otherwise", "") if sent else "",
            "has_moved": has_moved,
            "more": max(0, len(plan.conflicts) - _ROWS),
            "pair": urlencode({"source": source, "into": into}),
            "resolutions": list(Resolution),
        }
        if conflict := next((one for one in plan.conflicts if selected and one.path == selected), None):
            context["selected"] = _look_at(request, plan, conflict)
    return render(request, "datasets/merge.html", context, status=200 if sent is None else 409)


@require_POST
def merge(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Merge, with the choices of the page."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    source, into = request.POST.get("source", ""), request.POST.get("into", "")
    choices = {
        _read_field(field): Resolution(value)
        for field, value in request.POST.items()
        if field.startswith(_FIELD) and value in set(Resolution)
    }
    otherwise = request.POST.get("otherwise", "")
    try:
        made = services.merge(
            actor=request.actor,
            dataset=dataset,
            source=source,
            into=into,
            expected_source=request.POST.get("expected_source") or None,
            expected_head=request.POST.get("expected_head") or None,
            choices=choices,
            otherwise=Resolution(otherwise) if otherwise in set(Resolution) else None,
            message=request.POST.get("message", "").strip(),
        )
    except (MergeConflicts, StaleParent) as error:
        has_moved = isinstance(error, StaleParent)
        return _show(request, dataset, source, into, request.POST.dict(), has_moved=has_moved)
    messages.success(request, f"{into} is at {made.short}: {made.message}.")
    return redirect(f"{reverse('datasets:commits', args=[project, name])}?{urlencode({'ref': into})}")


def _read_field(field: str) -> bytes:
    try:
        return bytes.fromhex(field.removeprefix(_FIELD))
    except ValueError as error:
        raise InvalidInput("A choice of this form names no file.") from error


def _row_of(conflict: Conflict, selected: bytes, sent: Mapping[str, str] | None = None) -> ConflictRow:
    field = _FIELD + conflict.path.hex()
    choice = sent.get(field, "") if sent else ""
    return ConflictRow(
        field=field,
        choice=choice,
        is_open=sent is not None and not choice and not sent.get("otherwise"),
        name=show_path(conflict.path),
        link=link_path(conflict.path),
        base=side_of(conflict.base),
        ours=side_of(conflict.ours),
        theirs=side_of(conflict.theirs),
        is_selected=conflict.path == selected,
    )


def _look_at(request: PageRequest, plan: MergePlan, conflict: Conflict) -> dict[str, object]:
    row = _row_of(conflict, conflict.path)
    if row.has_thumbnail:
        return {"row": row}
    ours = lines_of(request, plan.ours, conflict.ours)
    theirs = lines_of(request, plan.theirs, conflict.theirs)
    why_not = why_incomparable(ours, theirs)
    lines = [] if why_not else list(pair_lines(ours or (), theirs or ()))
    return {"row": row, "lines": lines, "why_not": why_not}
