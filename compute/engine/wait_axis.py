"""The wait of a job on one axis of time: for each place when its GPUs are held and free, and when its data is there.

Positions are percentages of the axis, which begins a little before the present moment and ends with the last that is
known. A place that would be done much later than the chosen one runs off its end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from compute.engine.outlook import DataState, HolderEnd, Outlook, Place
from core.units import format_bytes, format_duration, format_gpus

_NOW = 16.0
"""Where the present moment is: before it stands what is there already."""

_TICKS_MOST = 6
_LAST_TICK = 94.0
"""Behind it the words of a tick would not fit."""

_FARTHEST = 3
"""The axis shows at most so many times what the chosen place takes."""

_STEPS_S = [
    *(1, 2, 5, 10, 20, 30),
    *[60 * minutes for minutes in (1, 2, 5, 10, 20, 30)],
    *[3600 * hours for hours in (1, 2, 3, 6, 12)],
    *[86400 * days for days in (1, 2, 7, 14, 30, 90)],
]


@dataclass(frozen=True)
class Bar:
    """A span of the axis. `kind`: `held`, `maybe` (the job may have started), `runs`, `there` or `moves`."""

    kind: str
    left: float
    width: float
    text: str = ""


@dataclass(frozen=True)
class Row:
    """What becomes of one thing at a place."""

    place: str
    thing: str
    is_chosen: bool
    bars: Sequence[Bar]


@dataclass(frozen=True)
class Tick:
    """A moment that the axis names."""

    left: float
    text: str


@dataclass(frozen=True)
class WaitAxis:
    """Rows of bars below ticks. `now` is where the present moment is."""

    ticks: Sequence[Tick]
    rows: Sequence[Row]
    now: float = _NOW


def axis_of(outlook: Outlook, *, now: datetime) -> WaitAxis | None:
    """Draw an outlook. None: nothing is known of its times."""
    end_s = _end_of(outlook, now)
    if end_s <= 0:
        return None
    scale = _Scale(now, end_s)
    places = sorted(outlook.places, key=lambda place: not place.is_chosen)
    rows = [row for place in places for row in _rows_of(place, outlook, scale)]
    return WaitAxis(list(scale.ticks()), rows)


def _end_of(outlook: Outlook, now: datetime) -> float:
    """Return in how many seconds the axis ends."""

    def last(place: Place) -> float:
        moments = [place.starts_at, place.late_at, place.finishes_at, place.data.ready_at if place.data else None]
        return max(((moment - now).total_seconds() for moment in moments if moment is not None), default=0.0)

    own = last(outlook.chosen) if outlook.chosen is not None else 0.0
    end_s = max(map(last, outlook.places), default=0.0)
    return min(end_s, _FARTHEST * own) if own > 0 else end_s


class _Scale:
    """Where moments lie on the axis."""

    def __init__(self, now: datetime, end_s: float) -> None:
        self._now, self._end_s = now, end_s

    def at(self, moment: datetime | None) -> float:
        """Return the position of a moment; an unknown one is at the end."""
        return 100.0 if moment is None else self._at_s((moment - self._now).total_seconds())

    def ticks(self) -> Iterator[Tick]:
        step_s = next((step for step in _STEPS_S if self._end_s / step < _TICKS_MOST), self._end_s)
        yield Tick(_NOW, "now")
        for number in range(1, int(self._end_s / step_s) + 1):
            if (left := self._at_s(number * step_s)) < _LAST_TICK:
                yield Tick(left, f"in {format_duration(number * step_s).replace('.0 s', ' s')}")

    def _at_s(self, seconds: float) -> float:
        return _NOW + (100 - _NOW) * min(max(seconds / self._end_s, 0.0), 1.0)


def _rows_of(place: Place, outlook: Outlook, scale: _Scale) -> Iterator[Row]:
    unit = "GPUs" if outlook.asked is None or outlook.asked.resource == "gpu" else "CPU"
    yield Row(place.words, unit, place.is_chosen, list(_starts(place, outlook, scale)))
    if place.data is not None and place.data.total_bytes:
        yield Row(place.words, "data", place.is_chosen, list(_arrives(place.data, scale)))


def _starts(place: Place, outlook: Outlook, scale: _Scale) -> Iterator[Bar]:
    start, end = scale.at(place.starts_at), scale.at(place.finishes_at)
    # Elsewhere nobody says who holds what: there the wait may be one for data alone.
    if place.is_chosen and start > _NOW:
        yield Bar("held", 0, start, _held_by(outlook.holders))
    if place.starts_at is None:
        return
    sure = start if place.late_at is None else min(scale.at(place.late_at), end)
    if sure > start:
        yield Bar("maybe", start, sure - start)
    if end > sure:
        yield Bar("runs", sure, end - sure, "this job" if place.is_chosen else "would run")


def _held_by(holders: Sequence[HolderEnd]) -> str:
    if not holders:
        return "not free"
    first = holders[0]
    held = sum(holder.gpu_milli for holder in holders if holder.project == first.project)
    how = "comes first" if first.is_ahead else "borrows" if first.is_borrowing else "holds"
    amount = f" {format_gpus(held)}" if held and not first.is_ahead else ""
    more = len({holder.project for holder in holders}) - 1
    return f"{first.project} {how}{amount}" + (f", and {more} more" if more else "")


def _arrives(data: DataState, scale: _Scale) -> Iterator[Bar]:
    there = data.total_bytes - data.missing_bytes
    if there:
        whole = "" if data.missing_bytes else "all "
        yield Bar("there", 0, _NOW, f"{whole}{format_bytes(there)}")
    if data.missing_bytes:
        unknown = ", at no known rate" if data.ready_at is None else ""
        width = scale.at(data.ready_at) - _NOW
        yield Bar("moves", _NOW, width, f"{format_bytes(data.missing_bytes)} move{unknown}")
