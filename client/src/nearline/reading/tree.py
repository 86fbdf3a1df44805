"""The files of a tree by path. What is looked up costs the ranges that may hold it, not the tree."""

import posixpath
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from nearline.content.entries import Entry, EntryKind
from nearline.content.manifest import RangeEntries, RootRange

# About 1 MB each: paths in no order come back to the same ranges again and again.
_DECODED_RANGES = 64
_LINKS_FOLLOWED = 32
# The byte after "/": what lies in a folder sorts before the folder's name with this behind it.
_AFTER_SLASH = b"0"


# Gives the entries of the range with this id (hexadecimal), verified against it.
LoadRange: TypeAlias = Callable[[str], RangeEntries]


class Child(NamedTuple):
    """What lies directly in a folder: a file or link with its entry, or a folder, which has none."""

    name: bytes
    entry: Entry | None


class TreeFiles:
    """The files of a tree by path. Safe to use from several threads where `load` is."""

    def __init__(self, ranges: Sequence[RootRange], load: LoadRange) -> None:
        self.ranges = ranges
        self._last_paths = [row.last_path for row in ranges]
        self._load = lru_cache(maxsize=_DECODED_RANGES)(load)

    def find(self, path: bytes) -> Entry | None:
        """Return the file at a path, through links in the tree; None where there is none."""
        for _ in range(_LINKS_FOLLOWED):
            entry = self._at(path)
            if entry is not None and entry.kind is EntryKind.FILE:
                return entry
            link, rest = (entry, b"") if entry is not None else self._link_above(path)
            if link is None:
                return None
            path = posixpath.normpath(posixpath.join(posixpath.dirname(link.path), link.target, rest))
        return None

    def list_folder(self, folder: bytes) -> Iterator[Child]:
        """Yield what lies directly in a folder ("" is the root), sorted by name.

        Of a range that lies within one subfolder only its first and last path are read.
        """
        prefix = folder + b"/" if folder else b""
        children = _Children(prefix)
        for row in self.ranges[bisect_left(self._last_paths, prefix) :]:
            if row.first_path > prefix and not row.first_path.startswith(prefix):
                return
            name = children.folder_of(row.first_path)
            if name is not None and name == children.folder_of(row.last_path):
                yield from children.add(name, None)
                continue
            yield from self._children_in(self._load(row.range_id), children)

    def list_entries(self, row: RootRange) -> RangeEntries:
        """Return the entries of one of `ranges`."""
        return self._load(row.range_id)

    def _at(self, path: bytes) -> Entry | None:
        number = bisect_left(self._last_paths, path)
        if number == len(self.ranges) or path < self.ranges[number].first_path:
            return None
        entries = self._load(self.ranges[number].range_id)
        index = bisect_left(entries.paths, path)
        return entries[index] if index < len(entries) and entries.paths[index] == path else None

    def _link_above(self, path: bytes) -> tuple[Entry | None, bytes]:
        """Return the link that a folder of this path is, and what follows it."""
        end = path.find(b"/")
        while end >= 0:
            entry = self._at(path[:end])
            if entry is not None:
                return (entry, path[end + 1 :]) if entry.kind is EntryKind.SYMLINK else (None, b"")
            end = path.find(b"/", end + 1)
        return None, b""

    @staticmethod
    def _children_in(entries: RangeEntries, children: "_Children") -> Iterator[Child]:
        names, prefix = entries.paths, children.prefix
        index = bisect_left(names, prefix)
        while index < len(names) and names[index].startswith(prefix):
            name = children.folder_of(names[index])
            if name is None:
                yield from children.add(names[index][len(prefix) :], entries[index])
                index += 1
            else:
                yield from children.add(name, None)
                index = bisect_left(names, prefix + name + _AFTER_SLASH)


class _Children:
    """What was found in the folder with this prefix; a folder is found once."""

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix
        self._last: bytes | None = None

    def folder_of(self, path: bytes) -> bytes | None:
        """Return the subfolder that a path lies in; None for what lies directly here, or elsewhere."""
        if not path.startswith(self.prefix):
            return None
        name, slash, _ = path[len(self.prefix) :].partition(b"/")
        return name if slash else None

    def add(self, name: bytes, entry: Entry | None) -> Iterator[Child]:
        if name != self._last:
            self._last = name
            yield Child(name, entry)
