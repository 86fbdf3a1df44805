"""A file of a tree that is to be stored, wherever its bytes come from."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO

Open = Callable[[], AbstractContextManager[BinaryIO]]


@dataclass(frozen=True)
class SourceFile:
    """A file, or with `target` a symbolic link. `open` returns its bytes from the beginning, `size_bytes` of them."""

    path: bytes
    mode: int
    size_bytes: int
    mtime_ns: int
    open: Open
    target: bytes = b""
