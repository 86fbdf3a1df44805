"""What differs between two trees, how two changed trees become one, and what a tree is after changes.

Equal ranges are never read, and of a changed tree only those around changed paths are read, cut and encoded again.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain, groupby, islice
from typing import NamedTuple, TypeVar

from nearline.content.entries import check_entries
from nearline.content.manifest import (
    Delta,
    EncodedRange,
    Entry,
    LoadRange,
    RangeCutter,
    RangeEntries,
    RootRange,
    Tree,
    build_range,
    describe_range,
    is_whole_range,
)
from nearline.content.paths import find_clashes
from nearline.content.range_codec import read_columns
from nearline.content.range_deltas import encode_short_delta


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


def patch_tree(ranges: Sequence[RootRange], changes: Iterable[Change], load_range: LoadRange) -> Tree:
    """Return the tree of `ranges` after the sorted changes: the same as encoding all its entries from the start.

    `objects` of the result holds only what `ranges` does not have; `deltas` are based on `ranges`, or on what these are
    based on. Raises BadPath or BadManifest.
    """
    patched = _PatchedTree({row.range_id for row in ranges}, load_range)
    # A change belongs to the first range that does not end before it; the last takes all that is left.
    ends = [row.last_path for row in ranges[:-1]]
    groups = groupby(changes, key=lambda change: bisect_left(ends, change.path))
    nothing = len(ranges), iter(())
    place, mine = next(groups, nothing)
    for index, row in enumerate(ranges):
        if index != place and patched.is_at_cut:
            # Cutting is independent of what came before a cut, so an untouched range ends where it ended.
            patched.rows.append(row)
            continue
        entries = patched.open(row.range_id)
        # As many as the range has files may change it by its columns; more are not held at once.
        first = list(islice(mine, row.files + 1)) if index == place else []
        changed = _change_plain_files(entries, first) if patched.is_at_cut and len(first) <= row.files else None
        if changed is not None and is_whole_range(changed.paths, is_last=index == len(ranges) - 1):
            patched.store(changed)
        else:
            patched.add(apply_changes(entries, chain(first, mine) if index == place else ()))
        if index == place:
            place, mine = next(groups, nothing)
    if not ranges:
        patched.add(apply_changes((), mine))
    return patched.finish()


def _change_plain_files(entries: Sequence[Entry], changes: Sequence[Change]) -> RangeEntries | None:
    """Return a range after its changes: by its columns, which takes a quarter of the time.

    None where that cannot be, because a file comes or goes, or has not exactly one blob. Raises BadPath or BadManifest.
    """
    if not isinstance(entries, RangeEntries) or not entries.is_plain:
        return None
    places: list[int] = []
    changed: list[Entry] = []
    for change in changes:
        place = bisect_left(entries.paths, change.path)
        if change.after is None or len(change.after.blobs) != 1 or entries.paths[place : place + 1] != [change.path]:
            return None
        places.append(place)
        changed.append(change.after)
    check_entries(changed)
    return entries.with_changed(places, RangeEntries(read_columns(changed)))


class _PatchedTree:
    def __init__(self, known: set[str], load_range: LoadRange) -> None:
        self.rows: list[RootRange] = []
        self._known = known
        self._load_range = load_range
        self._opened: tuple[str, Sequence[Entry]] = "", ()
        self._objects: dict[str, bytes] = {}
        self._deltas: dict[str, Delta] = {}
        self._cutter = RangeCutter()

    @property
    def is_at_cut(self) -> bool:
        return self._cutter.is_empty

    def open(self, range_id: str) -> Sequence[Entry]:
        """Return the entries of a range that changes: what comes next may be stored as a delta of it."""
        entries = self._load_range(range_id)
        self._opened = range_id, entries
        return entries

    def add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            piece = self._cutter.add(entry)
            if piece:
                self.store(piece)

    def finish(self) -> Tree:
        rest = self._cutter.take()
        if rest:
            self.store(rest)
        return Tree(self.rows, self._objects, self._deltas)

    def store(self, piece: Sequence[Entry]) -> None:
        """Take a whole range."""
        encoded = build_range(piece)
        self.rows.append(describe_range(piece, encoded.range_id))
        if encoded.range_id not in self._known:
            self._objects[encoded.range_id] = encoded.data
            self._add_delta(encoded, piece)

    def _add_delta(self, encoded: EncodedRange, piece: Sequence[Entry]) -> None:
        base_id, base = self._opened
        if not isinstance(base, RangeEntries):
            return
        if base.base_id is not None:
            base_id, base = base.base_id, self._load_range(base.base_id)
        # What becomes again what it was is in the store; as a delta of itself it could not be read.
        if base_id == encoded.range_id or not isinstance(base, RangeEntries):
            return
        if (data := encode_short_delta(base_id, base, piece, encoded.data)) is not None:
            self._deltas[encoded.range_id] = Delta(base_id, data)


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
