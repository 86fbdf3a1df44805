"""The columns that a range is made of: little-endian arrays or plain bytes, each compressed on its own.

A reader always knows the uncompressed length of a column beforehand, so hostile bytes cannot unfold beyond it.
"""

import sys
import zlib
from array import array
from collections.abc import Iterable
from struct import Struct
from typing import Literal

from nearline.content.errors import BadManifest
from nearline.content.hashing import ID_BYTES

_HEAD = Struct("<BI")
_STORED, _ZLIB = 0, 1
ArrayCode = Literal["H", "I", "Q", "q"]
WIDTHS: dict[ArrayCode, int] = {"H": 2, "I": 4, "Q": 8, "q": 8}


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
        return _HEAD.pack(_ZLIB, len(stored)) + stored
    return _HEAD.pack(_STORED, len(raw)) + raw


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
        return unpack_numbers(code, self.read(count * WIDTHS[code], is_compressed=True))

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
        if len(self._data) - self._offset < _HEAD.size:
            raise BadManifest("The manifest range ends too early.")
        codec, stored_length = _HEAD.unpack_from(self._data, self._offset)
        start = self._offset + _HEAD.size
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
