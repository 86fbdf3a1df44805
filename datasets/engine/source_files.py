"""A file of a tree that is to be stored, wherever its bytes come from, and files that cannot be."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from nearline.content.paths import show_path

Open = Callable[[], AbstractContextManager[BinaryIO]]

_NAMED: Final = 3
# Most of a path that is too long says nothing.
_SHOWN_BYTES: Final = 200


@dataclass(frozen=True)
class SourceFile:
    """A file, or with `target` a symbolic link. `open` returns its bytes from the beginning, `size_bytes` of them."""

    path: bytes
    mode: int
    size_bytes: int
    mtime_ns: int
    open: Open
    target: bytes = b""


@dataclass
class LeftOut:
    """How many files are left out of a tree, and why the first of them are, in a sentence each."""

    count: int = 0
    reasons: list[str] = field(default_factory=list)

    def add(self, path: bytes, why: str) -> None:
        """Count one more."""
        self.count += 1
        if len(self.reasons) < _NAMED:
            half = _SHOWN_BYTES // 2
            shown = path if len(path) <= _SHOWN_BYTES else path[:half] + b" ... " + path[-half:]
            self.reasons.append(f"'{show_path(shown)}' {why}.")

    def __str__(self) -> str:
        return f"{self.count:,} names cannot be carried: {' '.join(self.reasons)}" if self.count else ""
