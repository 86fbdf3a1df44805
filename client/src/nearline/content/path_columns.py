"""The paths of a range as its columns hold them; one by one they are made when someone asks for them.

Making them is most of what reading a range costs, and they are most of what it takes in memory.
"""

from array import array
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from itertools import chain
from typing import Self


@dataclass
class PathColumns:
    """Of each path how many bytes it begins with are those of the path before, and what follows them.

    Equal paths have equal columns where these are canonical, as those of every range that was checked.
    """

    shared: "array[int]"
    suffix_lengths: "array[int]"
    suffixes: bytes

    @classmethod
    def of(cls, paths: list[bytes]) -> Self:
        """Return the canonical columns: a path shares its folder, with the slash, where the one before is in it too."""
        folders = [path.rpartition(b"/")[0] for path in paths]
        shared = [
            len(folder) + 1 if folder == previous and folder else 0
            for folder, previous in zip(folders, chain((b"",), folders), strict=False)
        ]
        suffixes = [path[length:] for path, length in zip(paths, shared, strict=True)]
        columns = cls(array("H", shared), array("H", map(len, suffixes)), b"".join(suffixes))
        columns.paths = paths
        return columns

    @cached_property
    def paths(self) -> list[bytes]:
        """The paths themselves."""
        previous = shared = b""
        suffixes = map(BytesIO(self.suffixes).read, self.suffix_lengths)
        return [
            # Most paths share as much as the one before them does, so it need not be cut out again.
            previous := (shared if length == len(shared) else (shared := previous[:length])) + suffix
            for length, suffix in zip(self.shared, suffixes, strict=True)
        ]

    @property
    def size_bytes(self) -> int:
        """The length of all paths together."""
        return sum(self.shared) + len(self.suffixes)
