"""A manifest range as bytes: columns of consecutive entries, the same bytes for the same entries.

The range id is the BLAKE3 of the uncompressed canonical columns, so the codec may change without changing ids.
The modification times come last and are not part of the id: a touched file is not a new version.
Columns are little-endian arrays or plain bytes, each compressed on its own. A reader always knows the uncompressed
length of one beforehand, so hostile bytes cannot unfold beyond it.
docs/reference/format.md has the layout byte by byte.
"""

import sys
import zlib
from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from struct import Struct
from typing import Literal, NamedTuple

from nearline.content import entries as entry_rules
from nearline.content.entries import Entry
from nearline.content.errors import BadManifest
from nearline.content.hashing import ALGORITHM, ID_BYTES, new_hasher
from nearline.content.paths import show_path
from nearline.content.range_entries import KINDS, Columns, PathColumns, RangeEntries

VERSION = 1
MAGIC = b"NLRG"
MAX_RANGE_ENTRIES = 32_768
# Bounds on what one range may unfold to; `manifest.split_ranges` cuts before they are reached.
MAX_RANGE_NAME_BYTES = 16 << 20
# More than 2 TiB of average chunks.
MAX_RANGE_BLOBS = 1 << 19

# Magic, version, algorithm, flags; entries, blobs of files with several, all blobs, packs.
_HEADER = Struct("<4sBBHIIII")
# The names, kinds, modes and sizes come before the content ids; numbers of blobs and targets between these and chunks.
_COLUMNS_BEFORE_IDS = 6
_COLUMNS_BEFORE_CHUNKS = 2
ArrayCode = Literal["H", "I", "Q", "q"]
_WIDTHS: dict[ArrayCode, int] = {"H": 2, "I": 4, "Q": 8, "q": 8}
# Codec, stored length.
_COLUMN_HEADER = Struct("<BI")
_STORED, _ZLIB = 0, 1


class EncodedRange(NamedTuple):
    """A range ready to be stored."""

    range_id: str
    data: bytes


class DecodedRange(NamedTuple):
    """A range as it was read, and the id that its content has."""

    range_id: str
    entries: RangeEntries


class _Header(NamedTuple):
    entries: int
    chunks: int
    blobs: int
    packs: int


def encode_range(entries: Sequence[Entry]) -> bytes:
    """Return the bytes of a range. Raises BadPath or BadManifest for entries that no reader would accept."""
    return build_range(entries).data


def build_range(entries: Sequence[Entry]) -> EncodedRange:
    """Return the bytes of a range together with its id."""
    if not isinstance(entries, RangeEntries):
        _check_count(entries)
        entry_rules.check_entries(entries)
        columns = read_columns(entries)
        _check_size(columns)
    else:
        check_range_entries(entries)
        columns = entries.columns
    header, raw_columns = _lay_out(columns)
    stored = [write_column(raw, is_compressed=is_compressed) for raw, is_compressed in raw_columns]
    stored.append(write_column(pack_numbers("q", columns.times), is_compressed=True))
    return EncodedRange(_hash_columns(header, [raw for raw, _ in raw_columns]), b"".join([header, *stored]))


def identify_range(entries: RangeEntries) -> str:
    """Return the id of the range that has these entries, which are not checked."""
    header, raw_columns = _lay_out(entries.columns)
    return _hash_columns(header, [raw for raw, _ in raw_columns])


def check_range_entries(entries: RangeEntries) -> None:
    """Raise BadPath or BadManifest unless these entries may be a range."""
    _check_count(entries)
    entries.check()
    _check_size(entries.columns)


def _check_count(entries: Sequence[Entry]) -> None:
    if not 0 < len(entries) <= MAX_RANGE_ENTRIES:
        raise BadManifest(f"A manifest range has 1 to {MAX_RANGE_ENTRIES} entries, not {len(entries)}.")


def _check_size(columns: Columns) -> None:
    names = columns.names
    if names.size_bytes + len(columns.targets) > MAX_RANGE_NAME_BYTES or len(columns.offsets) > MAX_RANGE_BLOBS:
        raise BadManifest(f"The range of '{show_path(names.paths[0])}' has too much in it.")


def read_columns(entries: Sequence[Entry]) -> Columns:
    """Return what a range of these entries lists. There is at least one."""
    paths, modes, sizes, times, content_ids, kinds, blob_lists, targets = zip(*entries, strict=True)
    blob_counts = list(map(len, blob_lists))
    blobs = list(chain.from_iterable(blob_lists))
    # The only blob of a file has the id and the size of the file, so these are listed for several blobs only.
    chunks = [blob for several in blob_lists if len(several) > 1 for blob in several] if max(blob_counts) > 1 else []
    _, packs, offsets, _ = zip(*blobs, strict=True) if blobs else ((), (), (), ())
    ordinals = {pack: ordinal for ordinal, pack in enumerate(dict.fromkeys(packs))}
    return Columns(
        PathColumns.of(list(paths)),
        bytes(map(KINDS.index, kinds)),
        array("H", modes),
        array("Q", sizes),
        array("q", times),
        b"".join(content_ids),
        array("I", blob_counts),
        b"".join(targets),
        b"".join([chunk.content_id for chunk in chunks]),
        array("I", [chunk.size for chunk in chunks]),
        array("I", map(ordinals.__getitem__, packs)),
        array("I", offsets),
        list(ordinals),
    )


def _lay_out(range_columns: Columns) -> tuple[bytes, list[tuple[bytes, bool]]]:
    """Return the header, and of each column that makes the id its bytes and whether it is compressed."""
    names = range_columns.names
    counts = (
        len(range_columns.kinds),
        len(range_columns.chunk_sizes),
        len(range_columns.offsets),
        len(range_columns.packs),
    )
    header = _HEADER.pack(MAGIC, VERSION, ALGORITHM, 0, *counts)
    return header, [
        (pack_numbers("H", names.shared), True),
        (pack_numbers("H", names.suffix_lengths), True),
        (names.suffixes, True),
        (range_columns.kinds, True),
        (pack_numbers("H", range_columns.modes), True),
        (pack_numbers("Q", range_columns.sizes), True),
        (range_columns.content_ids, False),
        (pack_numbers("I", range_columns.blob_counts), True),
        (range_columns.targets, True),
        (range_columns.chunk_ids, False),
        (pack_numbers("I", range_columns.chunk_sizes), True),
        (pack_numbers("I", range_columns.pack_ordinals), True),
        (pack_numbers("I", range_columns.offsets), True),
        (b"".join(range_columns.packs), False),
    ]


def decode_range(data: bytes) -> list[Entry]:
    """Return the entries of a range after checking everything that a range can tell about itself.

    Raises BadPath or BadManifest and nothing else, and never unfolds more than the bounds of this module.
    """
    return list(read_range(data).entries)


def range_id(data: bytes) -> str:
    """Return the id of an encoded range. Raises BadPath or BadManifest like `decode_range`."""
    return read_range(data).range_id


def read_range(data: bytes, *, is_verified: bool = False) -> DecodedRange:
    """Return the id and the entries of a range: both for the price of one reading.

    With `is_verified`, the caller compares the id with that of a range which was checked before; what then needs no
    second check is left out, and nothing may be done with the entries where the ids differ.
    """
    header = _read_header(data)
    count = header.entries
    reader = ColumnReader(data, _HEADER.size)
    shared = reader.read_numbers("H", count)
    suffix_lengths = reader.read_numbers("H", count)
    suffix_bytes = sum(suffix_lengths)
    if sum(shared) + suffix_bytes > MAX_RANGE_NAME_BYTES:
        raise BadManifest("The names of this range unfold to too much.")
    suffixes = reader.read(suffix_bytes, is_compressed=True)
    kinds = reader.read(count, is_compressed=True)
    modes = reader.read_numbers("H", count)
    sizes = reader.read_numbers("Q", count)
    content_ids = reader.read_ids(count)
    blob_counts = reader.read_numbers("I", count)
    has_links = kinds.count(0) < count
    target_bytes = sum(size for kind, size in zip(kinds, sizes, strict=True) if kind) if has_links else 0
    has_one_each = blob_counts == array("I", [1]) * count
    blobs = count if has_one_each else sum(blob_counts)
    if (has_links and max(kinds) > 1) or target_bytes > MAX_RANGE_NAME_BYTES or blobs != header.blobs:
        raise BadManifest("The entries of this range contradict its header.")
    targets = reader.read(target_bytes, is_compressed=True)
    chunk_ids = reader.read_ids(header.chunks)
    chunk_sizes = reader.read_numbers("I", header.chunks)
    pack_ordinals = reader.read_numbers("I", header.blobs)
    offsets = reader.read_numbers("I", header.blobs)
    raw_packs = reader.read_ids(header.packs)
    range_id = _hash_columns(data[: _HEADER.size], reader.raw_columns)
    times = reader.read_numbers("q", count)
    reader.finish()

    if (0 if has_one_each else sum(blobs for blobs in blob_counts if blobs > 1)) != header.chunks:
        raise BadManifest("The chunks of this range contradict its header.")
    packs = [raw_packs[start : start + ID_BYTES] for start in range(0, len(raw_packs), ID_BYTES)]
    # Columns are compared at once: to look at an array makes a number of each of its items.
    is_one_pack = header.packs == 1 and pack_ordinals == array("I", [0]) * header.blobs
    uses = [0] if is_one_pack else list(dict.fromkeys(pack_ordinals))
    if uses != list(range(header.packs)) or len(set(packs)) != header.packs:
        raise BadManifest("The packs of this range are not listed in the order of their first use.")
    names = PathColumns(shared, suffix_lengths, suffixes)
    columns = Columns(
        names,
        kinds,
        modes,
        sizes,
        times,
        content_ids,
        blob_counts,
        targets,
        chunk_ids,
        chunk_sizes,
        pack_ordinals,
        offsets,
        packs,
    )
    entries = RangeEntries(columns, is_sound=is_verified)
    if not is_verified:
        entries.check()
        if names != PathColumns.of(names.paths) or names.size_bytes + target_bytes > MAX_RANGE_NAME_BYTES:
            raise BadManifest("The names of this range are not encoded as this format demands.")
    return DecodedRange(range_id, entries)


def peek_ids(data: bytes) -> bytes:
    """Return the ids of all contents that a range names, of files and of chunks, one after another.

    Nothing is checked: this is a hint where to look, not a reading. Raises BadManifest for bytes that are no range.
    """
    header = _read_header(data)
    reader = ColumnReader(data, _HEADER.size)
    reader.skip(_COLUMNS_BEFORE_IDS)
    content_ids = reader.read_ids(header.entries)
    reader.skip(_COLUMNS_BEFORE_CHUNKS)
    return content_ids + reader.read_ids(header.chunks)


def _read_header(data: bytes) -> _Header:
    if len(data) < _HEADER.size:
        raise BadManifest("These bytes are too short for a manifest range.")
    magic, version, algorithm, flags, *counts = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise BadManifest("These bytes are not a manifest range.")
    if (version, algorithm, flags) != (VERSION, ALGORITHM, 0):
        raise BadManifest(f"This range has format {version}.{algorithm}.{flags}, which this version cannot read.")
    header = _Header(*counts)
    if not 0 < header.entries <= MAX_RANGE_ENTRIES:
        raise BadManifest(f"A manifest range has 1 to {MAX_RANGE_ENTRIES} entries, not {header.entries}.")
    if header.chunks > header.blobs or header.packs > header.blobs or header.blobs > MAX_RANGE_BLOBS:
        raise BadManifest("The header of this range contradicts itself.")
    return header


def _hash_columns(header: bytes, columns: Sequence[bytes]) -> str:
    hasher = new_hasher()
    hasher.update(header)
    for raw in columns:
        hasher.update(len(raw).to_bytes(8, "little"))
        hasher.update(raw)
    return hasher.digest().hex()


def pack_numbers(code: ArrayCode, values: Iterable[int]) -> bytes:
    """Return the values as little-endian integers of the width that `code` stands for."""
    column = array(code, values)
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()


def unpack_numbers(code: ArrayCode, raw: bytes) -> "array[int]":
    """Return the integers of a column."""
    column: array[int] = array(code)
    column.frombytes(raw)
    if sys.byteorder == "big":
        column.byteswap()
    return column


def write_column(raw: bytes, *, is_compressed: bool) -> bytes:
    """Return one column as it is stored: codec, stored length, bytes."""
    if is_compressed:
        stored = zlib.compress(raw, 1)
        return _COLUMN_HEADER.pack(_ZLIB, len(stored)) + stored
    return _COLUMN_HEADER.pack(_STORED, len(raw)) + raw


class ColumnReader:
    """Reads columns one after another and keeps their uncompressed bytes; every failure is a BadManifest."""

    def __init__(self, data: bytes, offset: int) -> None:
        self._data = data
        self._offset = offset
        self.raw_columns: list[bytes] = []

    def read(self, raw_length: int, *, is_compressed: bool) -> bytes:
        """Return the next column, which must have exactly `raw_length` bytes and the codec that is due."""
        codec, start = self._pass_by()
        if codec != (_ZLIB if is_compressed else _STORED):
            raise BadManifest("A column of the manifest range has an unknown encoding.")
        raw = self._data[start : self._offset]
        if is_compressed:
            raw = _inflate(raw, raw_length)
        if len(raw) != raw_length:
            raise BadManifest("A column of the manifest range has the wrong length.")
        self.raw_columns.append(raw)
        return raw

    def skip(self, count: int) -> None:
        """Pass by the next columns unread."""
        for _ in range(count):
            self._pass_by()

    def read_numbers(self, code: ArrayCode, count: int) -> "array[int]":
        """Return the next column as `count` integers."""
        return unpack_numbers(code, self.read(count * _WIDTHS[code], is_compressed=True))

    def read_ids(self, count: int) -> bytes:
        """Return the next column of `count` hashes in one; hashes do not compress, so they are stored as they are."""
        return self.read(count * ID_BYTES, is_compressed=False)

    def rest(self) -> bytes:
        """Return the bytes that follow the columns read so far."""
        return self._data[self._offset :]

    def finish(self) -> None:
        """Raise BadManifest when bytes are left over."""
        if self._offset != len(self._data):
            raise BadManifest("The manifest range has bytes after its end.")

    def _pass_by(self) -> tuple[int, int]:
        """Move behind the next column; return its codec and where its bytes start."""
        if len(self._data) - self._offset < _COLUMN_HEADER.size:
            raise BadManifest("The manifest range ends too early.")
        codec, stored_length = _COLUMN_HEADER.unpack_from(self._data, self._offset)
        start = self._offset + _COLUMN_HEADER.size
        if start + stored_length > len(self._data):
            raise BadManifest("The manifest range ends too early.")
        self._offset = start + stored_length
        return codec, start


def _inflate(stored: bytes, raw_length: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        # One byte more than is due tells a column that goes on from one that ends.
        raw = inflater.decompress(stored, raw_length + 1)
    except zlib.error as error:
        raise BadManifest("A column of the manifest range cannot be decompressed.") from error
    if not inflater.eof or inflater.unused_data:
        raise BadManifest("A column of the manifest range has the wrong length.")
    return raw
