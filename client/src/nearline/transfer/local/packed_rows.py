"""Rows by the million in little memory: kept as bytes, block by block, and made anew when someone asks for them."""

import pickle
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, Generic, NamedTuple, Self, TypeVar

_R = TypeVar("_R", bound=tuple[Any, ...])
_BLOCK_ROWS = 4096


class _Block(NamedTuple):
    """Rows of one type. `columns` are the values of their records, pickled; `others` the other columns as they are."""

    row_type: type
    record_type: type
    columns: bytes
    others: Sequence[Sequence[Any]]


class PackedRows(Generic[_R]):
    """A list of named tuples with two values or more; the first is a record, a named tuple of plain values.

    Only records become bytes: those of files take a sixth of the memory then.
    """

    def __init__(self, rows: Iterable[_R] = ()) -> None:
        self._blocks: deque[_Block] = deque()
        self._rest: list[_R] = []
        for row in rows:
            self.append(row)

    def append(self, row: _R) -> None:
        """Take one more row."""
        self._rest.append(row)
        if len(self._rest) == _BLOCK_ROWS:
            self._pack()

    def take_over(self, other: Self) -> None:
        """Take all rows of another list, which is not used any more."""
        self._pack()
        self._blocks += other._blocks
        self._rest = other._rest

    def take_all(self) -> Iterator[_R]:
        """Yield all rows in order, and leave none of them behind."""
        while self._blocks:
            yield from _unpack(self._blocks.popleft())
        rest, self._rest = self._rest, []
        yield from rest

    def __len__(self) -> int:
        return sum(len(block.others[0]) for block in self._blocks) + len(self._rest)

    def __iter__(self) -> Iterator[_R]:
        return chain(chain.from_iterable(map(_unpack, self._blocks)), self._rest)

    def _pack(self) -> None:
        if self._rest:
            row_type, record_type = type(self._rest[0]), type(self._rest[0][0])
            records, *others = zip(*self._rest, strict=True)
            columns = pickle.dumps(list(zip(*records, strict=True)))
            self._blocks.append(_Block(row_type, record_type, columns, others))
            self._rest = []


def _unpack(block: _Block) -> Iterator[Any]:
    records = zip(*pickle.loads(block.columns), strict=True)  # noqa: S301 (they are our own)
    # The same as `_make` without a Python call for each of a million rows.
    return map(
        partial(tuple.__new__, block.row_type),
        zip(map(partial(tuple.__new__, block.record_type), records), *block.others, strict=True),
    )
