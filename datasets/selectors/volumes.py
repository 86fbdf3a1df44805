"""Volumes of NIfTI files: what the header says, and the slice in the middle. Reads and unpacks no more than that."""

import zlib
from collections.abc import Iterator
from typing import Final

import numpy as np

from datasets.adapters import pictures
from datasets.engine.nifti import HEADER_BYTES, NiftiHeader, NotNifti
from datasets.engine.nifti import read_header as read
from datasets.selectors.files import FileContent

_MOST_PIXELS: Final = 16_000_000
_MOST_UNPACKED_BYTES: Final = 256 << 20
"""How far into a packed volume is read: a small file can hold any number of zeros."""
_PIECE_BYTES: Final = 1 << 20
_WITH_GZIP_HEADER: Final = 31


def is_volume(path: bytes) -> bool:
    """Say whether a name is that of a volume."""
    return path.lower().endswith((b".nii", b".nii.gz"))


def read_header(content: FileContent) -> NiftiHeader | None:
    """Return what a file says about its volume; None when it is none."""
    try:
        return read(_read_part(content, 0, HEADER_BYTES))
    except (NotNifti, zlib.error):
        return None


def find_fault(content: FileContent, header: NiftiHeader) -> str:
    """Say in words why no slice of a volume can be drawn; empty when one can."""
    if header.sides[0] * header.sides[1] > _MOST_PIXELS:
        return "Its slices are too large to be drawn."
    is_packed = content.entry.path.lower().endswith(b".gz")
    if is_packed and header.middle + header.slice_bytes > _MOST_UNPACKED_BYTES:
        return "Its middle lies further in than a packed volume is read."
    # A packed file ends with its size, when it is whole; where that is another one, only reading on can tell.
    has_end = int.from_bytes(b"".join(content.read(max(0, content.size_bytes - 4))), "little") == header.end
    if (has_end if is_packed else content.size_bytes >= header.end) or draw_slice(content, 1) is not None:
        return ""
    promised = f"{header.end:,} bytes{' unpacked' if is_packed else ''}"
    return f"It is cut short: the header promises {promised}, and fewer are there."


def draw_slice(content: FileContent, edge: int) -> bytes | None:
    """Return the slice in the middle as a WebP; None when it is no volume, or one too large to be drawn."""
    header = read_header(content)
    if header is None or header.sides[0] * header.sides[1] > _MOST_PIXELS:
        return None
    with pictures.DRAWING:
        try:
            data = _read_part(content, header.middle, header.slice_bytes)
        except zlib.error:
            return None
        if len(data) < header.slice_bytes:
            return None
        rows = np.frombuffer(data, header.dtype).reshape(header.sides[1], header.sides[0])
        # The first row of a volume is its lowest.
        return pictures.draw_grey(rows[::-1], edge)


def _read_part(content: FileContent, first: int, size: int) -> bytes:
    """Return a part of a file, unpacked; less when it ends before, nothing when it lies too far in."""
    if not content.entry.path.lower().endswith(b".gz"):
        return b"".join(content.read(first, size)) if first < content.size_bytes else b""
    if first + size > _MOST_UNPACKED_BYTES:
        return b""
    part, position = bytearray(), 0
    for piece in _unpack(content):
        part += piece[max(0, first - position) : max(0, first + size - position)]
        position += len(piece)
        if position >= first + size:
            break
    return bytes(part)


def _unpack(content: FileContent) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(_WITH_GZIP_HEADER)
    for data in content.read():
        rest = data
        while rest and not unpacker.eof:
            yield unpacker.decompress(rest, _PIECE_BYTES)
            rest = unpacker.unconsumed_tail
