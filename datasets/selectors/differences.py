"""What differs between two commits, also of two datasets: how much in all, and page by page. Counts are kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from accounts.permissions import Actor, require
from core.errors import InvalidInput
from core.pagination import MAX_LIMIT, Page, decode_path, encode_cursor
from datasets import permissions
from datasets.models import Commit
from datasets.selectors import files
from datasets.selectors.trees import Kept, TreeReader
from nearline.content.diff import Change, diff_roots
from nearline.content.manifest import LoadRange, RangeEntries, RootRange

KINDS = ("added", "removed", "changed")


@dataclass(frozen=True)
class Counts:
    """How many files were added, removed and changed."""

    added: int
    removed: int
    changed: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.added + self.removed + self.changed


@dataclass(frozen=True)
class DiffPage:
    """What differs between two commits: how much in all, and some of it."""

    added: int
    removed: int
    changed: int
    page: Page[Change]


def get_differences(actor: Actor, base: Commit, other: Commit, *, cursor: str | None, limit: int) -> DiffPage:
    """Return what changed from `base` to `other` in the order of paths."""
    limit = max(1, min(limit, MAX_LIMIT))
    page = list_differences(actor, base, other, cursor=cursor, limit=limit)
    counts = count_differences(actor, base, other)
    return DiffPage(counts.added, counts.removed, counts.changed, page)


def count_differences(actor: Actor, base: Commit | None, other: Commit) -> Counts:
    """Return how much changed from `base` (None: the empty tree) to `other`."""
    require(actor, permissions.VIEW, other.dataset.project_id)
    if other.parent_id == (base.pk if base is not None else None):
        return Counts(other.added, other.removed, other.changed)
    key = (base.root if base is not None else "", other.root)
    known = _counts.get(key)
    if known is None:
        before, now, load_range = _open(actor, base, other)
        known = Counts(*files.count_changes(before, now, load_range))
        _counts.put(key, known)
    return known


def list_differences(
    actor: Actor, base: Commit | None, other: Commit, *, kind: str = "", cursor: str | None, limit: int
) -> Page[Change]:
    """Return a page of what changed from `base` to `other`, in the order of paths; of one of `KINDS` when it is given.

    Only the ranges from the cursor on are read. Raises InvalidInput.
    """
    require(actor, permissions.VIEW, other.dataset.project_id)
    if kind and kind not in KINDS:
        raise InvalidInput(f"There is no kind of change called '{kind}': it is {', '.join(KINDS)}.")
    after = _position(cursor)
    *trees, load_range = _open(actor, base, other)
    before, now = ([row for row in ranges if row.last_path > after] for ranges in trees)
    changes = (
        change
        for change in diff_roots(before, now, load_range)
        if change.path > after and (not kind or files.kind_of(change) == kind)
    )
    page = list(islice(changes, limit + 1))
    items = page[:limit]
    return Page(items, encode_cursor(items[-1].path.hex()) if len(page) > limit else None)


def find_difference(actor: Actor, base: Commit | None, other: Commit, *, path: bytes) -> Change | None:
    """Return what happened to one path; None when nothing did."""
    require(actor, permissions.VIEW, other.dataset.project_id)
    *trees, load_range = _open(actor, base, other)
    before, now = ([row for row in ranges if row.first_path <= path <= row.last_path] for ranges in trees)
    return next((change for change in diff_roots(before, now, load_range) if change.path == path), None)


def _open(
    actor: Actor, base: Commit | None, other: Commit
) -> tuple[Sequence[RootRange], Sequence[RootRange], LoadRange]:
    """Return both trees, and what loads the ranges of both."""
    reader = TreeReader(other.dataset)
    now = reader.read_root(other.root)
    if base is None:
        return (), now, reader.load_range
    require(actor, permissions.VIEW, base.dataset.project_id)
    if base.dataset_id == other.dataset_id:
        return reader.read_root(base.root), now, reader.load_range
    base_reader, ours = TreeReader(base.dataset), {row.range_id for row in now}

    def load_range(range_id: str) -> RangeEntries:
        return (reader if range_id in ours else base_reader).load_range(range_id)

    return base_reader.read_root(base.root), now, load_range


def _position(cursor: str | None) -> bytes:
    if not cursor:
        return b""
    return decode_path(cursor)


_counts: Kept[Counts] = Kept(2000)
