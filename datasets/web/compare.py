"""What differs between any two commits: paths by kind, pictures side by side, the lines of texts."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render

from accounts.web.requests import PageRequest, text
from datasets.engine.text_diff import DiffLine, diff_lines
from datasets.models import Commit, Dataset
from datasets.selectors import commits as selectors
from datasets.selectors import datasets, differences, files
from datasets.web import heading
from datasets.web.kinds import has_thumbnail
from datasets.web.paths import link_path, read_path
from datasets.web.previews import MAX_TEXT_BYTES, read_text
from nearline.content.diff import Change
from nearline.content.manifest import Entry, EntryKind
from nearline.content.paths import show_path

_ROWS = 100
_CHOICES = 50
_MAX_DIFF_LINES = 2000


@dataclass(frozen=True)
class Side:
    """A file before or after."""

    size_bytes: int
    has_thumbnail: bool


@dataclass(frozen=True)
class ChangeRow:
    """A path that differs."""

    kind: str
    name: str
    link: str
    before: Side | None
    after: Side | None
    is_selected: bool

    @property
    def has_thumbnail(self) -> bool:
        """Whether there is a picture on a side."""
        return any(side is not None and side.has_thumbnail for side in (self.before, self.after))


def compare_page(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Show what changed between two commits: `base` (else the parent, else nothing) and `ref`.

    Two that were picked from the list come as `pick`, the newer one first.
    """
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    picked = request.GET.getlist("pick")
    ref = (picked[0] if picked else text(request, "ref")) or dataset.default_branch
    commit = selectors.get_commit(request.actor, dataset, ref)
    base = _base_of(request, dataset, commit, picked[1] if len(picked) > 1 else text(request, "base"))
    kind, selected = text(request, "kind") or "", read_path(request, "file")
    page = differences.list_differences(
        request.actor, base, commit, kind=kind, cursor=text(request, "cursor"), limit=_ROWS
    )
    chosen = {"base": base.id if base else "", "ref": commit.id}
    context = heading.of(request.actor, dataset, tab="commits") | {
        "commit": commit,
        "base": base,
        "counts": differences.count_differences(request.actor, base, commit),
        "kind": kind,
        "rows": [_row_of(change, selected) for change in page.items],
        "next_cursor": page.next_cursor,
        "choices": selectors.list_commits(request.actor, dataset, ref=commit.id, cursor=None, limit=_CHOICES).items,
        "pair": urlencode(chosen),
        "pair_kind": urlencode(chosen | ({"kind": kind} if kind else {})),
    }
    if selected and (change := differences.find_difference(request.actor, base, commit, path=selected)):
        context["selected"] = _look_at(request, base, commit, change)
    return render(request, "datasets/compare.html", context)


def _base_of(request: PageRequest, dataset: Dataset, commit: Commit, base_ref: str | None) -> Commit | None:
    base_ref = base_ref or commit.parent_id
    return selectors.get_commit(request.actor, dataset, base_ref) if base_ref else None


def _row_of(change: Change, selected: bytes) -> ChangeRow:
    return ChangeRow(
        kind=files.kind_of(change),
        name=show_path(change.path),
        link=link_path(change.path),
        before=side_of(change.before),
        after=side_of(change.after),
        is_selected=change.path == selected,
    )


def side_of(entry: Entry | None) -> Side | None:
    """Describe a file on a side; None: it is not there."""
    return None if entry is None else Side(entry.size, has_thumbnail(entry))


def _look_at(request: PageRequest, base: Commit | None, commit: Commit, change: Change) -> dict[str, object]:
    row = _row_of(change, change.path)
    lines, why_not = None, ""
    if not row.has_thumbnail:
        lines, why_not = _diff(request, base, commit, change)
    return {"row": row, "lines": lines, "why_not": why_not, "is_mode_only": _is_mode_only(change)}


def _diff(
    request: PageRequest, base: Commit | None, commit: Commit, change: Change
) -> tuple[list[DiffLine] | None, str]:
    """Return the lines that differ, or why they are not shown."""
    before = lines_of(request, base, change.before)
    after = lines_of(request, commit, change.after)
    if why_not := why_incomparable(before, after):
        return None, why_not
    return list(diff_lines(before or (), after or ())), ""


def why_incomparable(before: list[str] | None, after: list[str] | None) -> str:
    """Say why two files cannot be compared line by line; empty: they can."""
    if before is None or after is None:
        return f"It is no text, or longer than {MAX_TEXT_BYTES // 1024} KiB: only its size and hash are compared."
    if max(len(before), len(after)) > _MAX_DIFF_LINES:
        return f"It has more than {_MAX_DIFF_LINES} lines: download both to compare them."
    return ""


def lines_of(request: PageRequest, commit: Commit | None, entry: Entry | None) -> list[str] | None:
    """Return the lines of a file; none for one that is not there, and None for one that is no small text."""
    if entry is None or commit is None:
        return []
    if entry.kind is EntryKind.SYMLINK:
        return [show_path(entry.target)]
    if entry.size > MAX_TEXT_BYTES:
        return None
    content = read_text(files.open_file(request.actor, commit, path=entry.path))
    return None if content is None else content.splitlines()


def _is_mode_only(change: Change) -> bool:
    before, after = change.before, change.after
    return before is not None and after is not None and before.content_id == after.content_id
