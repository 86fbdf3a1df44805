"""How long something waited, ran and took in all: one definition for pages, API and commands.

*Waited*: something was queued and nothing ran. *Ran*: at least one job ran. *Total*: from when the first was queued to
the last end. *Suspended*: a person kept it from the queue. Between the end of a run and its retry it neither waits nor
runs, so total may be more than these together.
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


Stretch = tuple[datetime, datetime | None]
"""A stretch of time; without an end it has not ended."""


@dataclass(frozen=True)
class Times:
    """Seconds, to the millisecond: waited, ran, from first queued to last end, and suspended.

    `ran_s` None: nothing ever ran.
    """

    waited_s: float
    ran_s: float | None
    total_s: float
    suspended_s: float = 0.0


def measure(intervals: Sequence[Interval], *, now: datetime, suspensions: Sequence[Stretch] = ()) -> Times | None:
    """Return how long jobs took together, up to now where they have not ended; None without any.

    What happens at the same time counts once.
    """
    if not intervals:
        return None
    suspended = [(start, end or now) for start, end in suspensions]
    ran = [
        (max(interval.queued_at, interval.started_at), interval.ended_at or now)
        for interval in intervals
        if interval.started_at is not None
    ]
    live_s = _union_s((interval.queued_at, interval.ended_at or now) for interval in intervals)
    ran_s = _union_s(ran)
    ends = [*(interval.ended_at or now for interval in intervals), *(end for _, end in suspended)]
    total = max(ends) - min(interval.queued_at for interval in intervals)
    return Times(
        waited_s=round(live_s - ran_s, 3),
        ran_s=round(ran_s, 3) if ran else None,
        total_s=round(max(0.0, total.total_seconds()), 3),
        suspended_s=round(_union_s(suspended), 3),
    )


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
