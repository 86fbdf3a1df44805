"""The root of a tree: the ordered list of its ranges. Its id names the whole tree, and with it a commit's content."""

import struct
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from nearline.content.entries import Entry
from nearline.content.errors import BadManifest
from nearline.content.hashing import ALGORITHM, ID_BYTES, file_id
from nearline.content.paths import check_path, show_path
from nearline.content.range_codec import MAX_RANGE_ENTRIES
from nearline.content.range_entries import RangeEntries

VERSION = 1
MAGIC = b"NLRT"

# Magic, version, algorithm, flags, number of ranges.
_HEADER = struct.Struct("<4sBBHI")
# Lengths of the first and the last path, files, size in bytes, range id; the two paths follow.
_ROW = struct.Struct(f"<HHIQ{ID_BYTES}s")
MAX_SIZE_BYTES = (1 << 63) - 1


class RootRange(NamedTuple):
    """What a root knows of one range; `range_id` is hexadecimal."""

    first_path: bytes
    last_path: bytes
    files: int
    size_bytes: int
    range_id: str


def describe_range(entries: Sequence[Entry], range_id: str) -> RootRange:
    """Return the row that stands for these entries in a root."""
    size_bytes = sum(entries.sizes if isinstance(entries, RangeEntries) else map(attrgetter("size"), entries))
    return RootRange(entries[0].path, entries[-1].path, len(entries), size_bytes, range_id)


def encode_root(ranges: Sequence[RootRange]) -> bytes:
    """Return the bytes of a root; the empty tree has no range. Raises BadPath or BadManifest."""
    _check_ranges(ranges)
    parts = [_HEADER.pack(MAGIC, VERSION, ALGORITHM, 0, len(ranges))]
    for first, last, files, size_bytes, range_id in ranges:
        parts += (_ROW.pack(len(first), len(last), files, size_bytes, bytes.fromhex(range_id)), first, last)
    return b"".join(parts)


def decode_root(data: bytes) -> list[RootRange]:
    """Return the ranges of a root. Raises BadPath or BadManifest and nothing else."""
    if len(data) < _HEADER.size:
        raise BadManifest("These bytes are too short for a manifest root.")
    magic, version, algorithm, flags, count = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise BadManifest("These bytes are not a manifest root.")
    if (version, algorithm, flags) != (VERSION, ALGORITHM, 0):
        raise BadManifest(f"This root has format {version}.{algorithm}.{flags}, which this version cannot read.")
    ranges = []
    offset = _HEADER.size
    for _ in range(count):
        if offset + _ROW.size > len(data):
            raise BadManifest("The manifest root ends too early.")
        first_length, last_length, files, size_bytes, range_id = _ROW.unpack_from(data, offset)
        middle = offset + _ROW.size + first_length
        offset = middle + last_length
        # A path that is cut off by the end of the data is found by the length check below.
        ranges.append(
            RootRange(data[middle - first_length : middle], data[middle:offset], files, size_bytes, range_id.hex())
        )
    if offset != len(data):
        raise BadManifest("The manifest root has the wrong length.")
    _check_ranges(ranges)
    return ranges


def root_id(data: bytes) -> str:
    """Return the id of an encoded root: the BLAKE3 of its bytes, in hexadecimal."""
    return file_id(data).hex()


def _check_ranges(ranges: Sequence[RootRange]) -> None:
    previous = b""
    for first, last, files, size_bytes, range_id in ranges:
        check_path(first)
        check_path(last)
        shown = show_path(first)
        if first <= previous or last < first or (files == 1) != (first == last):
            raise BadManifest(f"The ranges of this root overlap or are out of order at '{shown}'.")
        if not 0 < files <= MAX_RANGE_ENTRIES or not 0 <= size_bytes <= MAX_SIZE_BYTES:
            raise BadManifest(f"The range at '{shown}' has an impossible number of files or bytes.")
        if len(range_id) != 2 * ID_BYTES:
            raise BadManifest(f"The range at '{shown}' has no proper id.")
        previous = last
