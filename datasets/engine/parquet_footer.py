"""What the end of a Parquet file says: its columns and how many rows it has. Reads nothing of the data.

The footer is one Thrift struct in the compact protocol, written before its length and the last four bytes `PAR1`.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

Value: TypeAlias = "int | bytes | list[Value] | dict[int, Value]"

MAGIC: Final = b"PAR1"
TAIL_BYTES: Final = 8
_TYPES: Final = ("boolean", "int32", "int64", "int96", "float", "double", "bytes", "fixed bytes")
_UTF8, _DECIMAL, _DATE, _MILLIS, _MICROS, _JSON = 0, 5, 6, 9, 10, 19
_MEANINGS: Final = {
    _UTF8: "text",
    _DECIMAL: "decimal",
    _DATE: "date",
    _MILLIS: "timestamp",
    _MICROS: "timestamp",
    _JSON: "json",
}
_KINDS: Final = ("", "optional", "repeated")
_SCHEMA, _ROWS = 2, 3
_MOST_COLUMNS: Final = 2000
_DEEPEST: Final = 40
# A name is that of a column after those of all groups that it is in, so each of many may be as long as the footer.
LONGEST_NAME: Final = 1000


class NotParquet(ValueError):
    """These bytes are no Parquet footer that we read."""


@dataclass(frozen=True)
class Column:
    """A column, named by its way through groups. `kind` is optional, repeated or empty."""

    name: str
    type: str
    kind: str


@dataclass(frozen=True)
class Footer:
    """What a Parquet file holds."""

    rows: int
    columns: Sequence[Column]


def footer_size(tail: bytes) -> int:
    """Return how many bytes before the tail are the footer. Raises NotParquet."""
    if len(tail) != TAIL_BYTES or tail[4:] != MAGIC:
        raise NotParquet
    return int(struct.unpack("<I", tail[:4])[0])


def read_footer(data: bytes) -> Footer:
    """Return what a footer says. Raises NotParquet."""
    try:
        # What follows describes every piece of the data, and can be long.
        fields = ThriftReader(data).read_struct(0, last=_ROWS)
        elements, rows = fields[_SCHEMA], fields[_ROWS]
        if not isinstance(elements, list) or not isinstance(rows, int):
            raise NotParquet
        return Footer(rows, _columns(elements[:_MOST_COLUMNS]))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise NotParquet from error


def _columns(elements: Sequence[Value]) -> list[Column]:
    """Return the leaves of the tree that the list of elements is, written depth first."""
    columns: list[Column] = []
    open_groups: list[tuple[str, int]] = []
    for element in elements:
        if not isinstance(element, dict):
            raise NotParquet
        name = _text(element.get(4, b""))
        while open_groups and open_groups[-1][1] == 0:
            open_groups.pop()
        if open_groups:
            parent, rest = open_groups[-1]
            open_groups[-1] = (parent, rest - 1)
            name = (f"{parent}.{name}" if parent else name)[:LONGEST_NAME]
        children = element.get(5, 0)
        if isinstance(children, int) and children > 0:
            # The first element is the table itself, whose name says nothing.
            open_groups.append((name if open_groups else "", children))
        else:
            columns.append(Column(name, _type_of(element), _KINDS[as_number(element.get(3, 0))]))
    return columns


def _type_of(element: Mapping[int, Value]) -> str:
    meaning = element.get(6)
    if isinstance(meaning, int) and meaning in _MEANINGS:
        return _MEANINGS[meaning]
    return _TYPES[as_number(element.get(1, 0))]


def as_number(value: Value) -> int:
    """Return a number that is not negative. Raises NotParquet."""
    if not isinstance(value, int) or value < 0:
        raise NotParquet
    return value


def as_struct(value: Value) -> Mapping[int, Value]:
    """Return the fields of a struct. Raises NotParquet."""
    if not isinstance(value, dict):
        raise NotParquet
    return value


def as_structs(value: Value) -> Sequence[Mapping[int, Value]]:
    """Return the fields of each struct of a list. Raises NotParquet."""
    if not isinstance(value, list):
        raise NotParquet
    return list(map(as_struct, value))


def _text(value: Value) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else ""


class ThriftReader:
    """Reads Thrift's compact protocol: fields by number, values without their meaning.

    `position`: how many bytes were read. Raises NotParquet and IndexError.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def read_struct(self, depth: int, last: int = 0) -> dict[int, Value]:
        """Return the fields of a struct, up to the one with the number `last`, if it has that."""
        if depth > _DEEPEST:
            raise NotParquet
        fields: dict[int, Value] = {}
        number = 0
        while head := self._byte():
            delta, kind = head >> 4, head & 0x0F
            number = number + delta if delta else _unzigzag(self._varint())
            fields[number] = self._value(kind, depth)
            if number == last:
                break
        return fields

    def _value(self, kind: int, depth: int) -> Value:  # noqa: PLR0911 (one line for each type of the protocol)
        match kind:
            case 1 | 2:  # a field that is true or false carries it in its head
                return 2 - kind
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return _unzigzag(self._varint())
            case 7:
                return self._take(8)
            case 8:
                return self._take(self._varint())
            case 9 | 10:
                return self._list(depth)
            case 12:
                return self.read_struct(depth + 1)
            case _:
                raise NotParquet

    def _list(self, depth: int) -> list[Value]:
        head = self._byte()
        size, kind = head >> 4, head & 0x0F
        if size == 15:  # noqa: PLR2004 (a longer list says its size apart)
            size = self._varint()
        if size > len(self._data):
            raise NotParquet
        return [self._byte() if kind in {1, 2} else self._value(kind, depth + 1) for _ in range(size)]

    def _byte(self) -> int:
        self.position += 1
        return self._data[self.position - 1]

    def _take(self, size: int) -> bytes:
        taken = self._data[self.position : self.position + size]
        if len(taken) != size:
            raise NotParquet
        self.position += size
        return taken

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 70:  # noqa: PLR2004 (64 bits take ten bytes)
                raise NotParquet
        return value | byte << shift


def _unzigzag(value: int) -> int:
    return value >> 1 ^ -(value & 1)
