"""The cells of some columns of a Parquet file as texts, row by row; what the other columns hold is not decoded.

Text, whole numbers and booleans are read, single or in lists, plain or by a dictionary, uncompressed, Snappy or gzip.
All else is refused in words.
"""

import struct
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Final

from datasets.engine.parquet_footer import (
    LONGEST_NAME,
    MAGIC,
    TAIL_BYTES,
    NotParquet,
    ThriftReader,
    Value,
    as_number,
    as_struct,
    as_structs,
    footer_size,
)
from datasets.engine.parquet_pages import (
    BOOLEAN,
    BYTES,
    INT32,
    INT64,
    UNSIGNED,
    Allowance,
    Column,
    UnreadableTable,
    read_pages,
)
from nearline.content.paths import to_text

MAX_FOOTER_BYTES: Final = 1 << 20
_SCHEMA, _ROW_GROUPS = 2, 4
_REQUIRED, _REPEATED = 0, 2
_MEANING, _NEW_MEANING = 6, 10
_UNSAID, _OTHER = -1, -2
# Each of many columns may be named by groups whose names are as long as the footer.
_DEEPEST, _MOST_COLUMNS = 40, 10_000
_TOO_LARGE = f"It has more than {_MOST_COLUMNS:,} columns, or one of a name of more than {LONGEST_NAME:,} characters."
# Texts, enumerations, whole numbers and JSON; below, as older writers say it, whole numbers first.
_NEW_MEANINGS: Final = {1, 4, 10, 12}
_WHOLE: Final = UNSIGNED | {_UNSAID, 15, 16, 17, 18}
_MEANINGS: Final = {BOOLEAN: {_UNSAID}, INT32: _WHOLE, INT64: _WHOLE, BYTES: {_UNSAID, 0, 4, 19}}


class ParquetTable:
    """A Parquet file. A list, or a group of one column, is a column; those of larger groups have dotted names.

    Raises UnreadableTable.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        with _in_words():
            size = footer_size(data[-TAIL_BYTES:])
            if size > MAX_FOOTER_BYTES:
                raise UnreadableTable(f"Its footer has more than {MAX_FOOTER_BYTES:,} bytes.")
            if not data.startswith(MAGIC) or size > len(data) - TAIL_BYTES - len(MAGIC):
                raise NotParquet
            footer = ThriftReader(data[-TAIL_BYTES - size : -TAIL_BYTES]).read_struct(0, last=_ROW_GROUPS)
            self._columns = {column.name: column for column in _read_schema(as_structs(footer[_SCHEMA]))}
            if not self._columns:
                raise UnreadableTable("It has no columns.")
            self._groups = [as_structs(group[1]) for group in as_structs(footer[_ROW_GROUPS])]

    @property
    def names(self) -> Sequence[str]:
        """The names of the columns."""
        return list(self._columns)

    def read_rows(self, names: Sequence[str]) -> Iterator[tuple[Sequence[str], ...]]:
        """Yield of each row the values in these columns: none of an empty cell, several of a list."""
        with _in_words():
            yield from zip(*(self._read_cells(self._columns[name]) for name in names), strict=True)

    def _read_cells(self, column: Column) -> Iterator[list[str]]:
        cell: list[str] | None = None
        for is_first, text in self._read_values(column):
            if is_first:
                if cell is not None:
                    yield cell
                cell = []
            if cell is None:
                raise NotParquet
            if text is not None:
                cell.append(text)
        if cell is not None:
            yield cell

    def _read_values(self, column: Column) -> Iterator[tuple[bool, str | None]]:
        """Yield each value, None for one that is absent, and whether it is the first of its row."""
        if column.meaning not in _MEANINGS.get(column.type, ()) or column.repeated > 1:
            raise UnreadableTable(f"Its column '{column.name}' holds neither texts nor whole numbers nor booleans.")
        allowance = Allowance()
        for group in self._groups:
            for page in read_pages(self._data, column, as_struct(group[column.index][3]), allowance):
                yield from page


def _read_schema(elements: Sequence[Mapping[int, Value]]) -> list[Column]:
    """Return the leaves of the tree that the list of elements is, written depth first."""
    waiting = deque(elements)
    columns: list[tuple[list[str], tuple[int, int, int, int]]] = []

    def read_group(group: Mapping[int, Value], names: list[str], deepest: int, repeated: int) -> None:
        for _ in range(as_number(group[5])):
            element = waiting.popleft()
            kind, path = element.get(3, _REQUIRED), [*names, _read_name(element[4])]
            if len(path) > _DEEPEST or len(".".join(path)) > LONGEST_NAME or len(columns) == _MOST_COLUMNS:
                raise UnreadableTable(_TOO_LARGE)
            levels = deepest + (kind != _REQUIRED), repeated + (kind == _REPEATED)
            if element.get(5):
                read_group(element, path, *levels)
            else:
                columns.append((path, (as_number(element[1]), _read_meaning(element), *levels)))

    read_group(waiting.popleft(), [], 0, 0)
    groups = [list(leaves) for _, leaves in groupby(columns, lambda leaf: leaf[0][0])]
    named = [(path[0] if len(leaves) == 1 else ".".join(path), facts) for leaves in groups for path, facts in leaves]
    return [Column(name, index, *facts) for index, (name, facts) in enumerate(named)]


def _read_meaning(element: Mapping[int, Value]) -> int:
    """Return what the values of a column stand for: as every writer says it, and newer ones once more."""
    if not as_struct(element.get(_NEW_MEANING, {})).keys() <= _NEW_MEANINGS:
        return _OTHER
    return as_number(element[_MEANING]) if _MEANING in element else _UNSAID


def _read_name(value: Value) -> str:
    if not isinstance(value, bytes):
        raise NotParquet
    return to_text(value)


@contextmanager
def _in_words() -> Iterator[None]:
    """Turn whatever damaged bytes lead to into one error."""
    try:
        yield
    except UnreadableTable:
        raise
    except (ValueError, LookupError, TypeError, struct.error, zlib.error, RecursionError) as error:
        raise UnreadableTable("It is no Parquet file, or it is damaged.") from error
