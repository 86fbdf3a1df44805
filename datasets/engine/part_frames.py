"""How a browser sends a part of an upload: four bytes of length, so much JSON about the files, then their bytes.

A part holds whole small files one after the other, or one piece of a large file.
"""

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.errors import InvalidInput
from datasets.errors import BodyRefused
from nearline.content.errors import BadPath
from nearline.content.packs import is_chunked
from nearline.content.paths import check_path, to_bytes

PART_BYTES = 32 << 20
"""The most content that a part carries, in bytes."""

MAX_FILES = 4096
_MAX_HEADER_BYTES = 32 << 20
_LENGTH = struct.Struct(">I")

Read = Callable[[int], bytes]


@dataclass(frozen=True)
class IncomingFile:
    """A file as its sender describes it."""

    path: bytes
    size_bytes: int
    mtime_ns: int


@dataclass(frozen=True)
class PartHeader:
    """What a part holds: whole files, or (`is_piece`) what of the only file lies at `offset`."""

    files: Sequence[IncomingFile]
    offset: int

    @property
    def is_piece(self) -> bool:
        """Whether the part is a piece of a large file."""
        return len(self.files) == 1 and is_chunked(self.files[0].size_bytes)


def read_header(read: Read) -> PartHeader:
    """Read what stands before the content. Raises BodyRefused, and BadPath for a name that cannot be carried."""
    (length,) = _LENGTH.unpack(read_exactly(read, _LENGTH.size))
    if length > _MAX_HEADER_BYTES:
        raise BodyRefused("The description of this part is too long.")
    try:
        fields = json.loads(read_exactly(read, length))
        files = [
            IncomingFile(to_bytes(item["path"]), int(item["size_bytes"]), int(item["mtime_ms"]) * 1_000_000)
            for item in fields["files"]
        ]
        header = PartHeader(files, int(fields.get("offset", 0)))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise BodyRefused("The description of this part cannot be read.") from error
    _check(header)
    return header


def read_exactly(read: Read, size: int) -> bytes:
    """Return the next `size` bytes. Raises BodyRefused when the body ends before them."""
    pieces = []
    while size > 0:
        piece = read(size)
        if not piece:
            raise BodyRefused("The connection ended in the middle of a part.")
        pieces.append(piece)
        size -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _check(header: PartHeader) -> None:
    if not 0 < len(header.files) <= MAX_FILES:
        raise BodyRefused(f"A part holds 1 to {MAX_FILES} files.")
    for file in header.files:
        try:
            check_path(file.path)
        except BadPath as error:
            raise InvalidInput(f"{error} Nothing of this part was kept.") from error
        if file.size_bytes < 0 or not -(1 << 63) <= file.mtime_ns < 1 << 63:
            raise BodyRefused("A file of this part has an impossible size or time.")
    if header.is_piece:
        if not 0 <= header.offset < header.files[0].size_bytes:
            raise BodyRefused("This piece begins outside its file.")
    elif sum(file.size_bytes for file in header.files) > PART_BYTES:
        raise BodyRefused(f"A part carries at most {PART_BYTES} bytes.")
