"""The manifest of a tree: sorted entries, cut into ragged ranges that commits share, under one root.

This is the module to import: it gathers the codec of ranges and holds what spans them, namely where they are cut and
the root, the ordered list of the ranges. Its id names the whole tree, and with it a commit's content.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from blake3 import blake3

from nearline.content.entries import BlobRef, Entry, EntryKind, new_symlink
from nearline.content.errors import BadManifest
from nearline.content.hashing import ALGORITHM, ID_BYTES, file_id
from nearline.content.paths import MAX_PATH_BYTES, check_path, show_path
from nearline.content.range_codec import (
    MAX_RANGE_BLOBS,
    MAX_RANGE_ENTRIES,
    MAX_RANGE_NAME_BYTES,
    EncodedRange,
    build_range,
    decode_range,
    encode_range,
    peek_ids,
    range_id,
    read_range,
)
from nearline.content.range_deltas import load_range
from nearline.content.range_entries import RangeEntries

__all__ = [
    "MAX_RANGE_ENTRIES",
    "MIN_RANGE_ENTRIES",
    "BlobRef",
    "Delta",
    "EncodedRange",
    "Entry",
    "EntryKind",
    "LoadRange",
    "RangeCutter",
    "RangeEntries",
    "RootRange",
    "Tree",
    "build_range",
    "build_tree",
    "check_range",
    "decode_range",
    "decode_root",
    "describe_range",
    "encode_range",
    "encode_root",
    "is_boundary",
    "is_whole_range",
    "load_range",
    "new_symlink",
    "peek_ids",
    "range_id",
    "read_range",
    "root_id",
    "split_ranges",
]

_ROOT_VERSION = 1
_ROOT_MAGIC = b"NLRT"
# Magic, version, algorithm, flags, number of ranges.
_ROOT_HEADER = struct.Struct("<4sBBHI")
# Lengths of the first and the last path, files, size in bytes, range id; the two paths follow.
_ROOT_ROW = struct.Struct(f"<HHIQ{ID_BYTES}s")
MAX_SIZE_BYTES = (1 << 63) - 1

MIN_RANGE_ENTRIES = 1_024
# A full range is cut early enough that the next entry, however large, would still have fitted: whether a range
# ends must never depend on what follows it, or a change behind it could move its end.
_FULL_NAME_BYTES = MAX_RANGE_NAME_BYTES - 2 * MAX_PATH_BYTES
_FULL_BLOBS = MAX_RANGE_BLOBS // 8

# Gives the entries of the range with this id (hexadecimal), verified against it.
LoadRange: TypeAlias = Callable[[str], Sequence[Entry]]


class RootRange(NamedTuple):
    """What a root knows of one range; `range_id` is hexadecimal."""

    first_path: bytes
    last_path: bytes
    files: int
    size_bytes: int
    range_id: str


class Delta(NamedTuple):
    """A range stored as what it changes of another one."""

    base_id: str
    data: bytes


class Tree(NamedTuple):
    """A tree ready to be stored: its root, and the bytes of those of its ranges that were built anew, by id.

    `deltas` are shorter objects for some of these, and the ids of the ranges that they are based on.
    """

    ranges: list[RootRange]
    objects: dict[str, bytes]
    deltas: Mapping[str, Delta] = MappingProxyType({})

    @property
    def shortest(self) -> dict[str, bytes]:
        """Return the shortest object of every range that was built anew."""
        return {**self.objects, **{range_id: delta.data for range_id, delta in self.deltas.items()}}

    @property
    def root(self) -> bytes:
        """Return the bytes of the root."""
        return encode_root(self.ranges)

    @property
    def root_id(self) -> str:
        """Return the id of the tree."""
        return root_id(self.root)


class RangeCutter:
    """Collects the sorted entries of a tree and says when a range is complete.

    After a cut the rest is cut independently of all before it, which is what lets commits share ranges.
    """

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._name_bytes = 0
        self._blobs = 0

    @property
    def is_empty(self) -> bool:
        """Return whether the last entry ended a range."""
        return not self._entries

    def add(self, entry: Entry) -> list[Entry] | None:
        """Take the next entry, and return the range that it completes, if it completes one."""
        entries = self._entries
        entries.append(entry)
        self._name_bytes += len(entry.path) + len(entry.target)
        self._blobs += len(entry.blobs)
        is_complete = (
            len(entries) >= MIN_RANGE_ENTRIES and (len(entries) == MAX_RANGE_ENTRIES or is_boundary(entry.path))
        ) or (self._name_bytes > _FULL_NAME_BYTES or self._blobs > _FULL_BLOBS)
        return self.take() if is_complete else None

    def take(self) -> list[Entry]:
        """Return the entries since the last cut, and start the next range."""
        entries, self._entries, self._name_bytes, self._blobs = self._entries, [], 0, 0
        return entries


def is_boundary(path: bytes) -> bool:
    """Return whether `path` ends its range; only names decide, so an edit of content moves no boundary.

    The low 13 bits of the first two bytes of its BLAKE3, read as little-endian, are zero for one path in 8,192.
    """
    low, high = blake3(path).digest(2)
    return low == 0 and high & 0x1F == 0


def is_whole_range(paths: Sequence[bytes], *, is_last: bool) -> bool:
    """Return whether plain files with these paths, of which none but the last can end a range, make a whole range.

    `is_last` says that no file of the tree follows.
    """
    count = len(paths)
    is_cut = is_last or (count >= MIN_RANGE_ENTRIES and (count == MAX_RANGE_ENTRIES or is_boundary(paths[-1])))
    return is_cut and count <= _FULL_BLOBS and sum(map(len, paths)) <= _FULL_NAME_BYTES


def split_ranges(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Cut the sorted entries of a tree into ranges."""
    cutter = RangeCutter()
    for entry in entries:
        complete = cutter.add(entry)
        if complete:
            yield complete
    rest = cutter.take()
    if rest:
        yield rest


def build_tree(entries: Iterable[Entry]) -> Tree:
    """Encode the sorted entries of a whole tree. Raises BadPath or BadManifest."""
    ranges = []
    objects = {}
    for piece in split_ranges(entries):
        encoded = build_range(piece)
        ranges.append(describe_range(piece, encoded.range_id))
        objects[encoded.range_id] = encoded.data
    return Tree(ranges, objects)


def check_range(expected: RootRange, entries: RangeEntries) -> RangeEntries:
    """Return the entries of the range with the expected id if they are what its root says. Raises BadManifest."""
    if describe_range(entries, expected.range_id) != expected:
        raise BadManifest(f"The range {expected.range_id[:16]} is not what its root says about it.")
    return entries


def describe_range(entries: Sequence[Entry], range_id: str) -> RootRange:
    """Return the row that stands for these entries in a root."""
    size_bytes = sum(entries.sizes if isinstance(entries, RangeEntries) else map(attrgetter("size"), entries))
    return RootRange(entries[0].path, entries[-1].path, len(entries), size_bytes, range_id)


def encode_root(ranges: Sequence[RootRange]) -> bytes:
    """Return the bytes of a root; the empty tree has no range. Raises BadPath or BadManifest."""
    _check_ranges(ranges)
    parts = [_ROOT_HEADER.pack(_ROOT_MAGIC, _ROOT_VERSION, ALGORITHM, 0, len(ranges))]
    for first, last, files, size_bytes, hex_id in ranges:
        parts += (_ROOT_ROW.pack(len(first), len(last), files, size_bytes, bytes.fromhex(hex_id)), first, last)
    return b"".join(parts)


def decode_root(data: bytes) -> list[RootRange]:
    """Return the ranges of a root. Raises BadPath or BadManifest and nothing else."""
    if len(data) < _ROOT_HEADER.size:
        raise BadManifest("These bytes are too short for a manifest root.")
    magic, version, algorithm, flags, count = _ROOT_HEADER.unpack_from(data)
    if magic != _ROOT_MAGIC:
        raise BadManifest("These bytes are not a manifest root.")
    if (version, algorithm, flags) != (_ROOT_VERSION, ALGORITHM, 0):
        raise BadManifest(f"This root has format {version}.{algorithm}.{flags}, which this version cannot read.")
    ranges = []
    offset = _ROOT_HEADER.size
    for _ in range(count):
        if offset + _ROOT_ROW.size > len(data):
            raise BadManifest("The manifest root ends too early.")
        first_length, last_length, files, size_bytes, range_id = _ROOT_ROW.unpack_from(data, offset)
        middle = offset + _ROOT_ROW.size + first_length
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
    for first, last, files, size_bytes, hex_id in ranges:
        check_path(first)
        check_path(last)
        shown = show_path(first)
        if first <= previous or last < first or (files == 1) != (first == last):
            raise BadManifest(f"The ranges of this root overlap or are out of order at '{shown}'.")
        if not 0 < files <= MAX_RANGE_ENTRIES or not 0 <= size_bytes <= MAX_SIZE_BYTES:
            raise BadManifest(f"The range at '{shown}' has an impossible number of files or bytes.")
        if len(hex_id) != 2 * ID_BYTES:
            raise BadManifest(f"The range at '{shown}' has no proper id.")
        previous = last
