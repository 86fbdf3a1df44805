"""Looking into a tree page by page: only the ranges that a page touches are read, however large the tree is."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeAlias

from datasets.engine.globs import Glob
from datasets.engine.queries import CompiledQuery
from datasets.engine.range_names import find_holding
from nearline.content.manifest import Entry, RangeEntries, RootRange

LoadEntries: TypeAlias = Callable[[str], RangeEntries]
LoadNames: TypeAlias = Callable[[str], bytes]
"""Gives the paths of a range in one piece, as `join_names` makes it."""

# A page of matches does no more than this: a pattern that costs much is answered by several short requests, not by a
# long one. It looks at so many files; each that has to be matched letter by letter counts for more.
_MATCH_BUDGET = 1_000_000
_MATCH_COST = 5
# What a query selects is summed up over so many files at most, counted in the same way.
_SUM_BUDGET = 200_000
# Making all entries of a range at once costs as much as making one in so many by themselves.
_MANY = 8


@dataclass(frozen=True)
class FolderItem:
    """A folder among the items of a listing, with what lies in it at any depth."""

    path: bytes
    files: int
    size_bytes: int


@dataclass(frozen=True)
class Listing:
    """A page. `resume_at` is where the next one begins; None at the end."""

    items: Sequence[FolderItem | Entry]
    resume_at: bytes | None


@dataclass(frozen=True)
class NamesFound:
    """Paths that hold a text. `is_complete`: no further path of the tree does."""

    paths: Sequence[bytes]
    files_read: int
    is_complete: bool


@dataclass(frozen=True)
class SelectedSum:
    """How many files a query selects, and their bytes. Where it is not complete, of the first files of the tree."""

    files: int
    size_bytes: int
    is_complete: bool


class TreeView:
    """A tree as its root describes it, and ways to load its ranges, or their names alone, when they are needed."""

    def __init__(self, root: Sequence[RootRange], load_range: LoadEntries, load_names: LoadNames) -> None:
        self._root = root
        self._load_range = load_range
        self._load_names = load_names

    def find(self, path: bytes) -> Entry | None:
        """Return the entry at `path`; None when there is none."""
        entry = self._first_from(path)
        return entry if entry is not None and entry.path == path else None

    def has_folder(self, folder: bytes) -> bool:
        """Say whether anything lies in that folder; the empty path is the tree itself."""
        entry = self._first_from(_inside(folder))
        return not folder or (entry is not None and entry.path.startswith(_inside(folder)))

    def list_folder(self, folder: bytes, *, resume_at: bytes | None, limit: int) -> Listing:
        """Return what lies directly in a folder, in the order of paths (a folder counts as its name with a slash)."""
        prefix = _inside(folder)
        position = max(resume_at or prefix, prefix)
        items: list[FolderItem | Entry] = []
        while (entry := self._first_from(position)) is not None and entry.path.startswith(prefix):
            if len(items) == limit:
                return Listing(items, position)
            name, slash, _ = entry.path[len(prefix) :].partition(b"/")
            if slash:
                after = prefix + name + b"0"  # the byte that follows the slash
                items.append(self._sum_up(prefix + name, after))
                position = after
            else:
                items.append(entry)
                position = entry.path + b"\0"
        return Listing(items, None)

    def list_matching(self, glob: Glob, *, resume_at: bytes | None, limit: int) -> Listing:
        """Return the files whose whole path matches. A page may be short, even empty, and still not be the last.

        Only what begins as the pattern does is looked at: a folder written out costs the ranges of that folder.
        """
        items: list[FolderItem | Entry] = []
        position = max(resume_at or b"", glob.prefix)
        budget = _MATCH_BUDGET
        for row in self._root[self._range_at(position) :]:
            if row.first_path >= glob.end:
                break
            if budget <= 0:
                return Listing(items, row.first_path)
            budget -= row.files
            for path in find_holding(self._load_names(row.range_id), glob.part):
                if not position <= path < glob.end:
                    continue
                budget -= _MATCH_COST
                if glob.matches(path):
                    if len(items) == limit:
                        return Listing(items, path)
                    items.append(self._entry(row, path))
        return Listing(items, None)

    def list_selected(self, query: CompiledQuery, *, resume_at: bytes | None, limit: int) -> Listing:
        """Return the files that a query selects. A page may be short, even empty, and still not be the last."""
        items: list[FolderItem | Entry] = []
        position = max(resume_at or b"", query.prefix)
        budget = _MATCH_BUDGET
        for row in self._rows_of(query, position):
            if budget <= 0:
                return Listing(items, row.first_path)
            paths = self._select_in(row, query)
            budget -= row.files + _MATCH_COST * len(paths)
            for path in paths[bisect_left(paths, position) :]:
                if len(items) == limit:
                    return Listing(items, path)
                items.append(self._entry(row, path))
        return Listing(items, None)

    def select(self, query: CompiledQuery) -> Iterator[tuple[RootRange, Sequence[bytes]]]:
        """Yield the ranges with files that a query selects, each with the paths of these, in order."""
        for row in self._rows_of(query, query.prefix):
            if paths := self._select_in(row, query):
                yield row, paths

    def sum_selected(self, query: CompiledQuery) -> SelectedSum:
        """Return how much a query selects, of so much of the tree as is cheap to look at."""
        files = size_bytes = 0
        budget = _SUM_BUDGET
        for row in self._rows_of(query, query.prefix):
            if budget <= 0:
                return SelectedSum(files, size_bytes, is_complete=False)
            paths = self._select_in(row, query)
            budget -= row.files + _MATCH_COST * len(paths)
            files += len(paths)
            size_bytes += row.size_bytes if len(paths) == row.files else self._sum_sizes(row, paths)
        return SelectedSum(files, size_bytes, is_complete=True)

    def load_entries(self, row: RootRange, paths: Sequence[bytes]) -> Sequence[Entry]:
        """Return the entries of a range at these of its paths, in order."""
        if len(paths) * _MANY < row.files:
            return [self._entry(row, path) for path in paths]
        distinct = set(paths)
        return [entry for entry in self._load_range(row.range_id) if entry.path in distinct]

    def find_names(self, part: bytes, *, limit: int, most_files: int) -> NamesFound:
        """Return the first paths that hold `part`, in any case of ASCII letters.

        Looks into whole ranges, as many as begin within the first `most_files` files.
        """
        files_read = 0
        paths: list[bytes] = []
        for row in self._root:
            if files_read >= most_files:
                return NamesFound(paths, files_read, is_complete=False)
            files_read += row.files
            paths += find_holding(self._load_names(row.range_id), part, in_any_case=True)
            if len(paths) > limit:
                return NamesFound(paths[:limit], files_read, is_complete=False)
        return NamesFound(paths, files_read, is_complete=True)

    def sum_folder(self, folder: bytes) -> FolderItem:
        """Return how much lies in a folder at any depth; the empty path is the tree itself."""
        if not folder:
            return FolderItem(folder, sum(row.files for row in self._root), sum(row.size_bytes for row in self._root))
        return self._sum_up(folder, folder + b"0")  # the byte that follows the slash

    def _rows_of(self, query: CompiledQuery, position: bytes) -> Iterator[RootRange]:
        for row in self._root[self._range_at(position) :]:
            if query.end is not None and row.first_path >= query.end:
                return
            yield row

    def _select_in(self, row: RootRange, query: CompiledQuery) -> Sequence[bytes]:
        """Return the paths of a range that a query selects. The range itself is read only for the sizes."""
        paths = query.find(self._load_names(row.range_id))
        if not (paths and query.asks_size):
            return paths
        entries, distinct = self._load_range(row.range_id), set(paths)
        sizes = zip(entries.paths, entries.sizes, strict=True)
        return [path for path, size in sizes if query.takes_size(size) and path in distinct]

    def _sum_sizes(self, row: RootRange, paths: Sequence[bytes]) -> int:
        if not paths:
            return 0
        entries, distinct = self._load_range(row.range_id), set(paths)
        return sum(size for path, size in zip(entries.paths, entries.sizes, strict=True) if path in distinct)

    def _sum_up(self, folder: bytes, after: bytes) -> FolderItem:
        start = folder + b"/"
        files = size_bytes = 0
        for row in self._root[self._range_at(start) :]:
            if row.first_path >= after:
                break
            if row.first_path >= start and row.last_path < after:
                files, size_bytes = files + row.files, size_bytes + row.size_bytes
                continue
            entries = self._load_range(row.range_id)
            first, last = bisect_left(entries.paths, start), bisect_left(entries.paths, after)
            files, size_bytes = files + last - first, size_bytes + sum(entries.sizes[first:last])
        return FolderItem(folder, files, size_bytes)

    def _first_from(self, position: bytes) -> Entry | None:
        index = self._range_at(position)
        if index == len(self._root):
            return None
        return self._entry(self._root[index], position)

    def _entry(self, row: RootRange, position: bytes) -> Entry:
        """Return the first entry of a range from a path on."""
        entries = self._load_range(row.range_id)
        return entries[bisect_left(entries.paths, position)]

    def _range_at(self, position: bytes) -> int:
        return bisect_left(self._root, position, key=attrgetter("last_path"))


def _inside(folder: bytes) -> bytes:
    return folder + b"/" if folder else b""
