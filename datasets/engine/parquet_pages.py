"""The values in the pages of a Parquet column, as texts: levels, encodings and compression, as the format defines them.

Pages come from strangers: they are bounded, and none unfolds to more than it says.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeAlias

from datasets.engine.parquet_footer import NotParquet, ThriftReader, Value, as_number, as_struct
from nearline.content.paths import to_text

MAX_PAGE_BYTES: Final = 32 << 20
MAX_COLUMN_BYTES: Final = 256 << 20
MAX_VALUES: Final = 2_000_000

BOOLEAN, INT32, INT64, BYTES = 0, 1, 2, 6
UNSIGNED: Final = frozenset({11, 12, 13, 14})
_NUMBERS: Final = {INT32: Struct("<i"), INT64: Struct("<q")}
_LENGTH: Final = Struct("<I")
_HEADER_BYTES: Final = 16 << 10
_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_2 = range(4)
_PLAIN, _RLE, _BY_DICTIONARY = 0, 3, {2, 8}
_UNCOMPRESSED, _SNAPPY, _GZIP = range(3)
_GZIP_HEADER: Final = 31

Values: TypeAlias = list[tuple[bool, str | None]]
"""Of each value whether it is the first of its row, and its text; None for one that is absent."""


class UnreadableTable(ValueError):
    """The file, or a column of it, cannot be read; the message says why."""


@dataclass(frozen=True)
class Column:
    """A column. `deepest`, `repeated`: how many of its groups and itself may be absent, and there several times."""

    name: str
    index: int
    type: int
    meaning: int
    deepest: int
    repeated: int


class Allowance:
    """What may still be read of one column. Raises UnreadableTable for more."""

    def __init__(self) -> None:
        self._values = MAX_VALUES
        self._bytes = MAX_COLUMN_BYTES

    def take(self, *, values: int = 0, size_bytes: int = 0) -> None:
        """Allow so many more values, and what unfolds to so many bytes."""
        self._values -= values
        self._bytes -= size_bytes
        if self._values < 0 or self._bytes < 0:
            raise UnreadableTable(
                f"One of its columns has more than {MAX_VALUES:,} values or {MAX_COLUMN_BYTES:,} bytes."
            )


def read_pages(data: bytes, column: Column, chunk: Mapping[int, Value], allowance: Allowance) -> Iterator[Values]:
    """Yield the values of each page of a column's part in a group of rows."""
    codec, left = as_number(chunk[4]), as_number(chunk[5])
    allowance.take(values=left)
    at = min(as_number(chunk[9]), as_number(chunk.get(11, 0)) or as_number(chunk[9]))
    dictionary: list[str] = []
    while left > 0:
        reader = ThriftReader(data[at : at + _HEADER_BYTES])
        header = reader.read_struct(0)
        start = at + reader.position
        at = start + as_number(header[3])
        body, kind, size = data[start:at], header[1], as_number(header[2])
        allowance.take(size_bytes=size)
        if kind == _DICTIONARY_PAGE:
            dictionary = _read_plain(_unfold(codec, body, size), column, as_number(as_struct(header[7])[1]))
        elif kind in {_DATA_PAGE, _DATA_PAGE_2}:
            page = _cut_page(codec, body, header, column)
            if page.count > left:
                raise NotParquet
            left -= page.count
            values = page.read(column, dictionary)
            # What stands once in the dictionary may be long, and used by every row.
            allowance.take(size_bytes=sum(len(text) for _, text in values if text))
            yield values
        elif kind != _INDEX_PAGE:
            raise NotParquet


def _cut_page(codec: int, body: bytes, header: Mapping[int, Value], column: Column) -> "_Page":
    """Return the parts of a page of data: levels of repetition and of definition, and values."""
    size = as_number(header[2])
    if header[1] == _DATA_PAGE_2:
        facts = as_struct(header[8])
        first, second = as_number(facts[6]), as_number(facts[6]) + as_number(facts[5])
        raw = _unfold(codec, body[second:], size - second) if facts.get(7, 1) else body[second:]
        return _Page(as_number(facts[1]), as_number(facts[4]), body[:first], body[first:second], raw)
    facts, raw = as_struct(header[5]), _unfold(codec, body, size)
    levels: list[bytes] = []
    for is_there, encoding in ((column.repeated, facts[4]), (column.deepest, facts[3])):
        if is_there and encoding != _RLE:
            raise NotParquet
        end = _LENGTH.size + _LENGTH.unpack_from(raw)[0] if is_there else 0
        levels.append(raw[_LENGTH.size : end])
        raw = raw[end:]
    return _Page(as_number(facts[1]), as_number(facts[2]), levels[0], levels[1], raw)


@dataclass(frozen=True)
class _Page:
    count: int
    encoding: int
    repetitions: bytes
    definitions: bytes
    raw: bytes

    def read(self, column: Column, dictionary: Sequence[str]) -> Values:
        """Return the values of the page."""
        again = _read_hybrid(self.repetitions, column.repeated.bit_length(), self.count)
        depths = _read_hybrid(self.definitions, column.deepest.bit_length(), self.count)
        texts = iter(self._read_present(column, dictionary, depths.count(column.deepest)))
        levels = zip(again, depths, strict=True)
        return [(not more, next(texts) if depth == column.deepest else None) for more, depth in levels]

    def _read_present(self, column: Column, dictionary: Sequence[str], count: int) -> Sequence[str]:
        if self.encoding == _PLAIN:
            return _read_plain(self.raw, column, count)
        if self.encoding in _BY_DICTIONARY:
            indexes = _read_hybrid(self.raw[1:], self.raw[0], count) if count else []
            return list(map(dictionary.__getitem__, indexes))
        if self.encoding == _RLE and column.type == BOOLEAN:
            return [_name_boolean(bit) for bit in _read_hybrid(self.raw[_LENGTH.size :], 1, count)]
        raise UnreadableTable(
            f"Its column '{column.name}' is encoded in a way that is not read here ({self.encoding}): "
            "write it plain or by a dictionary."
        )


def _read_plain(raw: bytes, column: Column, count: int) -> list[str]:
    if column.type == BOOLEAN:
        return [_name_boolean(raw[index >> 3] >> (index & 7) & 1) for index in range(count)]
    if (number := _NUMBERS.get(column.type)) is not None:
        wrap = 1 << 8 * number.size if column.meaning in UNSIGNED else 0
        values = (value for (value,) in number.iter_unpack(raw[: count * number.size]))
        texts = [str(value + wrap if value < 0 else value) for value in values]
    else:
        texts, at = [], 0
        for _ in range(count):
            start = at + _LENGTH.size
            at = start + _LENGTH.unpack_from(raw, at)[0]
            texts.append(to_text(raw[start:at]))
        if at > len(raw):
            raise NotParquet
    if len(texts) != count:
        raise NotParquet
    return texts


def _name_boolean(bit: int) -> str:
    return "true" if bit else "false"


def _read_hybrid(raw: bytes, width: int, count: int) -> list[int]:
    """Return numbers of `width` bits: runs of one number, and groups of eight in their bits."""
    if width == 0:
        return [0] * count
    numbers: list[int] = []
    mask, at = (1 << width) - 1, 0
    while len(numbers) < count:
        head, at = _read_varint(raw, at)
        size = width if head & 1 else (width + 7) // 8
        for _ in range(head >> 1 if head & 1 else 1):
            bits = int.from_bytes(_take(raw, at, size), "little")
            at += size
            if head & 1:
                numbers += [bits >> shift & mask for shift in range(0, 8 * width, width)]
            else:
                numbers += [bits] * min(head >> 1, count - len(numbers))
            if len(numbers) >= count:
                break
    return numbers[:count]


def _unfold(codec: int, stored: bytes, size: int) -> bytes:
    if size > MAX_PAGE_BYTES:
        raise UnreadableTable(f"It has a page of more than {MAX_PAGE_BYTES:,} bytes.")
    if codec == _UNCOMPRESSED:
        raw = stored
    elif codec == _SNAPPY:
        raw = _unfold_snappy(stored, size)
    elif codec == _GZIP:
        raw = zlib.decompressobj(_GZIP_HEADER).decompress(stored, size + 1)
    else:
        raise UnreadableTable("It is compressed in a way that is not read here: write it with Snappy, gzip or none.")
    if len(raw) != size:
        raise NotParquet
    return raw


def _unfold_snappy(stored: bytes, size: int) -> bytes:
    """Return what a block of Snappy holds: literals, and copies of what came before."""
    _, at = _read_varint(stored, 0)
    raw = bytearray()
    while at < len(stored) and len(raw) <= size:
        tag, at = stored[at], at + 1
        kind, length = tag & 3, (tag >> 2) + 1
        if kind == 0:
            if (extra := length - 60) > 0:
                length, at = int.from_bytes(_take(stored, at, extra), "little") + 1, at + extra
            raw += _take(stored, at, length)
            at += length
            continue
        width = (0, 1, 2, 4)[kind]
        offset, at = int.from_bytes(_take(stored, at, width), "little"), at + width
        if kind == 1:
            offset, length = offset | tag >> 5 << 8, (tag >> 2 & 7) + 4
        if not 0 < offset <= len(raw):
            raise NotParquet
        # A copy may reach into itself, and repeats then what it began with.
        start = len(raw) - offset
        source = raw[start : start + length]
        raw += (source * (length // len(source) + 1))[:length]
    return bytes(raw)


def _take(raw: bytes, at: int, size: int) -> bytes:
    taken = raw[at : at + size]
    if len(taken) != size:
        raise NotParquet
    return taken


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := raw[at]) & 0x80:
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if shift > 63:  # noqa: PLR2004 (64 bits take ten bytes)
            raise NotParquet
    return value | byte << shift, at + 1
