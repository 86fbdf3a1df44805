"""What differs between two trees, and how two changed trees become one. Equal ranges are never read."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain
from typing import NamedTuple, TypeVar

from nearline.content.manifest import Entry, LoadRange, RangeEntries, RootRange
from nearline.content.paths import find_clashes


class Change(NamedTuple):
    """One path that differs: added (no `before`), removed (no `after`) or changed."""

    path: bytes
    before: Entry | None
    after: Entry | None


class Conflict(NamedTuple):
    """One path where what they did cannot be applied to what we have; None means that nothing is there.

    Either both sides changed the path to different ends, or one side has a file where the other needs a folder;
    then `ours` is None, because our entry has another path.
    """

    path: bytes
    base: Entry | None
    ours: Entry | None
    theirs: Entry | None


class MergeResult(NamedTuple):
    """`changes` bring our tree to the merged one; of a conflict nothing is applied, so ours stays as it is."""

    changes: list[Change]
    conflicts: list[Conflict]


_L = TypeVar("_L", Entry, Change)
_R = TypeVar("_R", Entry, Change)


def diff_roots(base: Sequence[RootRange], other: Sequence[RootRange], load_range: LoadRange) -> Iterator[Change]:
    """Yield what changed from `base` to `other`, in the order of paths, reading only ranges that are not in both."""
    common = {row.range_id for row in base} & {row.range_id for row in other}
    for befores, afters in _blocks(base, other, common):
        if len(befores) == len(afters) == 1:
            yield from _diff_ranges(load_range(befores[0]), load_range(afters[0]))
        else:
            yield from diff_entries(
                chain.from_iterable(map(load_range, befores)), chain.from_iterable(map(load_range, afters))
            )


def _blocks(
    base: Sequence[RootRange], other: Sequence[RootRange], common: Collection[str]
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the ranges of two trees by id, in groups that end at the same path on both sides, without common ones."""
    sides: tuple[list[str], list[str]] = ([], [])
    rows = merge(*([(row.last_path, side, row.range_id) for row in tree] for side, tree in enumerate((base, other))))
    previous: tuple[bytes, int] = b"", -1
    for last_path, side, range_id in rows:
        if range_id not in common:
            sides[side].append(range_id)
        # Sorted, so two ranges that end alike follow each other.
        if previous == (last_path, 0) and side == 1:
            yield sides
            sides = [], []
        previous = last_path, side
    yield sides


def _diff_ranges(base: Sequence[Entry], other: Sequence[Entry]) -> Iterator[Change]:
    if isinstance(base, RangeEntries) and isinstance(other, RangeEntries) and base.has_paths_of(other):
        return (Change(base.paths[index], base[index], other[index]) for index in base.find_differing(other))
    return diff_entries(base, other)


def diff_entries(base: Iterable[Entry], other: Iterable[Entry]) -> Iterator[Change]:
    """Yield what changed between two sorted lists of entries. Time and place of the bytes do not count."""
    for path, before, after in _join(base, other):
        if before is None or after is None or before.identity != after.identity:
            yield Change(path, before, after)


def merge_changes(ours: Iterable[Change], theirs: Iterable[Change]) -> MergeResult:
    """Merge the changes of two sides, each sorted and made from the same base."""
    theirs = list(theirs)
    if not theirs:
        return MergeResult([], [])
    ours = list(ours)
    present = {change.path for change in (*ours, *theirs) if change.after is not None}
    clashing = {path for clash in find_clashes(sorted(present)) for path in clash.names}
    result = MergeResult([], [])
    for path, our, their in _join(ours, theirs):
        if their is None:
            continue
        if our is not None:
            if _identity(our.after) != _identity(their.after):
                result.conflicts.append(Conflict(path, their.before, our.after, their.after))
        elif their.after is not None and path in clashing:
            result.conflicts.append(Conflict(path, their.before, None, their.after))
        else:
            result.changes.append(their)
    return result


def apply_changes(entries: Iterable[Entry], changes: Iterable[Change]) -> Iterator[Entry]:
    """Yield the sorted entries as they are after the sorted changes."""
    for _, entry, change in _join(entries, changes):
        if change is None:
            assert entry is not None  # noqa: S101 (a join yields at least one side; this tells the type checker)
            yield entry
        elif change.after is not None:
            yield change.after


def _identity(entry: Entry | None) -> object:
    return None if entry is None else entry.identity


def _join(left: Iterable[_L], right: Iterable[_R]) -> Iterator[tuple[bytes, _L | None, _R | None]]:
    """Yield every path of two lists sorted by path, with what each of them has there."""
    lefts, rights = iter(left), iter(right)
    a, b = next(lefts, None), next(rights, None)
    while a is not None and b is not None:
        if a.path == b.path:
            yield a.path, a, b
            a, b = next(lefts, None), next(rights, None)
        elif a.path < b.path:
            yield a.path, a, None
            a = next(lefts, None)
        else:
            yield b.path, None, b
            b = next(rights, None)
    while a is not None:
        yield a.path, a, None
        a = next(lefts, None)
    while b is not None:
        yield b.path, None, b
        b = next(rights, None)
