"""A changed tree at the price of its change: only the ranges around changed paths are read, cut and encoded again."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from nearline.content.diff import Change, apply_changes
from nearline.content.manifest import Entry, LoadRange, RangeCutter, RootRange, Tree, build_range, describe_range


def patch_tree(ranges: Sequence[RootRange], changes: Sequence[Change], load_range: LoadRange) -> Tree:
    """Return the tree of `ranges` after the sorted changes: the same as encoding all its entries from the start.

    `objects` of the result holds only what `ranges` does not have. Raises BadPath or BadManifest.
    """
    patched = _PatchedTree({row.range_id for row in ranges})
    paths = [change.path for change in changes]
    taken = 0
    for index, row in enumerate(ranges):
        # A change belongs to the first range that does not end before it; the last takes all that is left.
        end = bisect_right(paths, row.last_path) if index < len(ranges) - 1 else len(changes)
        mine, taken = changes[taken:end], end
        if not mine and patched.is_at_cut:
            # Cutting is independent of what came before a cut, so an untouched range ends where it ended.
            patched.rows.append(row)
        else:
            patched.add(apply_changes(load_range(row.range_id), mine))
    if not ranges:
        patched.add(apply_changes((), changes))
    return patched.finish()


class _PatchedTree:
    def __init__(self, known: set[str]) -> None:
        self.rows: list[RootRange] = []
        self._known = known
        self._objects: dict[str, bytes] = {}
        self._cutter = RangeCutter()

    @property
    def is_at_cut(self) -> bool:
        return self._cutter.is_empty

    def add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            piece = self._cutter.add(entry)
            if piece:
                self._store(piece)

    def finish(self) -> Tree:
        rest = self._cutter.take()
        if rest:
            self._store(rest)
        return Tree(self.rows, self._objects)

    def _store(self, piece: list[Entry]) -> None:
        encoded = build_range(piece)
        self.rows.append(describe_range(piece, encoded.range_id))
        if encoded.range_id not in self._known:
            self._objects[encoded.range_id] = encoded.data
