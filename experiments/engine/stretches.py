"""Curves thinned ahead: of each stretch of a metric's points the lowest, the highest and the last.

Points are summed up as they come: eight to a stretch of the first level, four stretches to one of the next level, and
so on. What is not complete yet is kept open, so that a curve of any length is read from a few thousand stretches.
"""

import math
import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

T = TypeVar("T")

FIRST, FACTOR = 8, 4
_STRETCH = struct.Struct("<q" + 3 * "qqdq")


class Point(NamedTuple):
    """One measurement: its place among the metric's points from 0 on, and microseconds since 1970."""

    place: int
    step: int
    value: float
    at_us: int


class Stretch(NamedTuple):
    """What is shown of `size` points that follow each other. NaN is neither lowest nor highest, unless all are."""

    size: int
    lowest: Point
    highest: Point
    last: Point

    @classmethod
    def of(cls, points: Sequence[Point]) -> "Stretch":
        """Return the stretch of one or more points."""
        measured = [point for point in points if not math.isnan(point.value)] or points
        return cls(len(points), min(measured, key=_value), max(measured, key=_value), points[-1])

    @classmethod
    def join(cls, parts: Sequence["Stretch"]) -> "Stretch":
        """Return the stretch of all points of one or more stretches that follow each other."""
        lowest = [part.lowest for part in parts if not math.isnan(part.lowest.value)] or [parts[0].lowest]
        highest = [part.highest for part in parts if not math.isnan(part.highest.value)] or [parts[0].highest]
        size = sum(part.size for part in parts)
        return cls(size, min(lowest, key=_value), max(highest, key=_value), parts[-1].last)

    @property
    def points(self) -> list[Point]:
        """The points to show, in their order."""
        return sorted({self.lowest, self.highest, self.last}, key=lambda point: point.place)

    def pack(self) -> bytes:
        """Return the stretch as a few bytes."""
        return _STRETCH.pack(self.size, *self.lowest, *self.highest, *self.last)


def unpack(data: bytes) -> list[Stretch]:
    """Return the stretches that were packed one after the other."""
    return [
        Stretch(parts[0], Point(*parts[1:5]), Point(*parts[5:9]), Point(*parts[9:]))
        for parts in _STRETCH.iter_unpack(data)
    ]


class Levels:
    """The open stretches of one metric, from the first level up; what `open` held before goes on."""

    def __init__(self, data: bytes = b"") -> None:
        """Go on from what `pack` returned."""
        self._open: list[Stretch | None] = [stretch if stretch.size else None for stretch in unpack(data)]

    def add(self, point: Point) -> Iterator[tuple[int, Stretch]]:
        """Take the next point; yield the stretches that it completes, with their levels."""
        stretch = Stretch(1, point, point, point)
        for level in range(len(self._open) + 1):
            if level == len(self._open):
                self._open.append(None)
            before = self._open[level]
            stretch = stretch if before is None else Stretch.join((before, stretch))
            if stretch.size < size_of(level):
                self._open[level] = stretch
                return
            self._open[level] = None
            yield level, stretch

    def pack(self) -> bytes:
        """Return what is open as bytes."""
        nothing = bytes(_STRETCH.size)
        return b"".join(nothing if stretch is None else stretch.pack() for stretch in self._open)

    def rest_above(self, level: int) -> list[Stretch]:
        """Return what follows the last complete stretch of a level, in order."""
        return [stretch for stretch in reversed(self._open[: level + 1]) if stretch is not None]


def size_of(level: int) -> int:
    """Return how many points a complete stretch of a level has."""
    return int(FIRST * FACTOR**level)


def level_for(points: int, stretches: int) -> int | None:
    """Return the highest level with at least so many complete stretches; None: the points themselves are few."""
    level = None
    while points // size_of(0 if level is None else level + 1) >= stretches:
        level = 0 if level is None else level + 1
    return level


def gather(parts: Sequence[T], most: int) -> list[Sequence[T]]:
    """Cut a sequence into at most so many pieces, none of them empty and all about as long."""
    count = min(len(parts), most)
    ends = [number * len(parts) // count for number in range(count + 1)]
    return [parts[start:end] for start, end in pairwise(ends)]


def _value(point: Point) -> float:
    return point.value
