"""How long something waited, ran and took in all: one definition for pages, API and commands.

*Waited*: something was queued and nothing ran. *Ran*: at least one job ran. *Total*: from when the first was queued to
the last end. Between the end of a run and its retry it neither waits nor runs, so total may be more than both.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Interval:
    """One job, from when it was queued to its own end. `started_at` None: it never ran. `ended_at` None: not ended."""

    queued_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True)
class Times:
    """Seconds, to the millisecond: waited, ran, and from first queued to last end. `ran_s` None: nothing ever ran."""

    waited_s: float
    ran_s: float | None
    total_s: float


def measure(intervals: Sequence[Interval], *, now: datetime) -> Times | None:
    """Return how long jobs took together, up to now where they have not ended; None without any.

    What happens at the same time counts once.
    """
    if not intervals:
        return None
    ran = [
        (max(interval.queued_at, interval.started_at), interval.ended_at or now)
        for interval in intervals
        if interval.started_at is not None
    ]
    live_s = _union_s((interval.queued_at, interval.ended_at or now) for interval in intervals)
    ran_s = _union_s(ran)
    total = max(interval.ended_at or now for interval in intervals) - min(interval.queued_at for interval in intervals)
    return Times(round(live_s - ran_s, 3), round(ran_s, 3) if ran else None, round(max(0.0, total.total_seconds()), 3))


def _union_s(stretches: Iterable[tuple[datetime, datetime]]) -> float:
    """Return how many seconds lie in at least one of some stretches of time."""
    seconds = 0.0
    reached: datetime | None = None
    for start, end in sorted(stretches):
        begin = start if reached is None else max(start, reached)
        if end > begin:
            seconds += (end - begin).total_seconds()
            reached = end
    return seconds
