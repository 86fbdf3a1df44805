"""Changes of a waiting job, or of what its project may hold: when it would start then, and whom it would stop."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from compute.engine.outlook import STRANGER, StoppedJob

_SOONER = 0.9
"""A start within this part of the present wait is sooner. What a forecast differs by otherwise is chance."""


@dataclass(frozen=True)
class Change:
    """A change that was tried; nothing is changed. `text` says it in words, `kind` to programs.

    `starts_at` and `late_at` are when the job has started then in one half and in nine tenths of all cases; None: not
    known. `helps`: it starts sooner than without. `stops` are the jobs that are stopped for it.
    `needs_admin`: a site admin makes it; all others are made by whoever submits the job, or its flow, anew.
    """

    kind: str
    text: str
    helps: bool
    needs_admin: bool
    starts_at: datetime | None
    late_at: datetime | None
    nodes: Sequence[str]
    stops: Sequence[StoppedJob]

    @property
    def stops_text(self) -> str:
        """Whom it stops, for people; empty: nobody."""
        return ", ".join(_name(stop) for stop in self.stops)


@dataclass(frozen=True)
class Changes:
    """What was tried for a job, what helps first. `is_complete`: nothing was left out to bound the time it takes."""

    made_at: datetime
    changes: Sequence[Change]
    is_complete: bool


def is_sooner(start_s: float, present_s: float) -> bool:
    """Return whether a start in so many seconds is sooner than the present forecast says."""
    return start_s < _SOONER * present_s


def _name(stop: StoppedJob) -> str:
    name = stop.job if stop.project == STRANGER else f"{stop.job} ({stop.project})"
    return f"some replicas of {name}" if stop.goes_on else name
