"""What a job did before its present run, as its events tell: runs, waits and suspensions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from compute.engine.states import JobState
from core.times import Interval, Stretch


@dataclass(frozen=True)
class RunHistory:
    """The time of a job before its present run.

    `runs` are its waits with the runs that followed them; in `suspensions` a person kept it out of the queue, up to now
    or its end where no end is told. It is queued for its present run since `queued_at`; None: it is suspended.
    """

    runs: Sequence[Interval]
    suspensions: Sequence[Stretch]
    queued_at: datetime | None


def read_history(created_at: datetime, events: Iterable[tuple[str, datetime]]) -> RunHistory:
    """Return the history of a job from the states and moments of its events, oldest first.

    An event of a state that has been told already, as notes are, changes nothing.
    """
    runs: list[Interval] = []
    suspensions: list[Stretch] = []
    queued_at: datetime | None = created_at
    started_at: datetime | None = None
    for state, at in events:
        if state == JobState.RUNNING:
            started_at = started_at or at
        elif state == JobState.SUSPENDED and queued_at is not None:
            runs.append(Interval(queued_at, started_at, at))
            suspensions.append((at, None))
            queued_at = started_at = None
        elif state == JobState.PENDING and queued_at is None:
            suspensions[-1] = (suspensions[-1][0], at)
            queued_at = at
        elif state == JobState.PENDING and started_at is not None and queued_at is not None:
            runs.append(Interval(queued_at, started_at, at))
            queued_at, started_at = at, None
    return RunHistory(runs, suspensions, queued_at)
