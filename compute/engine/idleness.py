"""When a running job counts as used, and when one that is idle is warned about and stopped.

Use is what the platform can measure: traffic through connections, commands, output, CPU, and GPUs where the job's
place measures them; where it does not, a program that drives one still uses some CPU. Time in which nobody can measure
counts as use.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from compute.engine.ports import UsageSample

BUSY_MILLICORES = 50
"""A job that uses so much CPU on average over a minute is in use. A server that waits for requests uses less."""
BUSY_GPU_PERCENT = 1
"""A job whose GPUs are so much used on average over a minute is in use."""

_WINDOW = timedelta(minutes=1)
_LOOKS_PER_LIMIT = 20
_NOTICE_PART, _LONGEST_NOTICE = 4, timedelta(minutes=30)
_SHORTEST_WAIT, _LONGEST_WAIT = timedelta(seconds=15), timedelta(minutes=5)


class Use(StrEnum):
    """By what a job was last known to be used. WATCH: nothing was measured before."""

    WATCH = "watch"
    CPU = "cpu"
    GPU = "gpu"
    LOG = "log"
    CONNECTION = "connection"
    COMMAND = "command"
    PERSON = "person"


class Verdict(StrEnum):
    """What is to happen to a job now."""

    LEAVE = "leave"
    WARN = "warn"
    STOP = "stop"


@dataclass(frozen=True)
class IdleTimes:
    """How long a job may be idle, since when it is not known to be used, and when its owners were warned."""

    limit: timedelta
    used_at: datetime
    warned_at: datetime | None

    @property
    def notice(self) -> timedelta:
        """How long before its end a job is warned about."""
        return min(self.limit / _NOTICE_PART, _LONGEST_NOTICE)

    @property
    def warns_at(self) -> datetime:
        """When its owners are warned, unless it is used."""
        return self.used_at + self.limit - self.notice

    @property
    def stops_at(self) -> datetime:
        """When it is stopped, unless it is used: never before the warning is as old as it has to be."""
        reached_at = self.used_at + self.limit
        return reached_at if self.warned_at is None else max(reached_at, self.warned_at + self.notice)

    def judge(self, now: datetime) -> Verdict:
        """Return what is to happen now. A job is stopped only after a warning."""
        if self.warned_at is not None:
            return Verdict.STOP if now >= self.stops_at else Verdict.LEAVE
        return Verdict.WARN if now >= self.warns_at else Verdict.LEAVE

    def looks_at(self, now: datetime) -> datetime:
        """Return when to look at the job again."""
        wait = min(max(self.limit / _LOOKS_PER_LIMIT, _SHORTEST_WAIT), _LONGEST_WAIT)
        return min(now + wait, max(now, self.stops_at if self.warned_at is not None else self.warns_at))


def find_use(samples: Sequence[UsageSample]) -> Use | None:
    """Return what the job used in some minute of these samples, which are in the order of time: CPU, GPUs, or nothing.

    They are cut into minutes from the first one on; the last minute is a whole one wherever there is that much.
    """
    minutes: list[list[UsageSample]] = []
    for sample in samples:
        if not minutes or sample.at - minutes[-1][0].at >= _WINDOW:
            minutes.append([])
        minutes[-1].append(sample)
    if minutes:
        minutes[-1] = [sample for sample in samples if samples[-1].at - sample.at < _WINDOW]
    cpu = [[sample.cpu_millicores for sample in minute if sample.cpu_millicores is not None] for minute in minutes]
    if any(cores and _mean(cores) >= BUSY_MILLICORES for cores in cpu):
        return Use.CPU
    measured = [[sample.gpu_percent for sample in minute if sample.gpu_percent is not None] for minute in minutes]
    return Use.GPU if any(percents and _mean(percents) >= BUSY_GPU_PERCENT for percents in measured) else None


def _mean(numbers: Sequence[int]) -> float:
    return sum(numbers) / len(numbers)
