"""Which parts of a job run next. A job with completions runs as parts: jobs of their own, each with an index. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from compute.engine.states import HOLDING, JOB_STATES, LIMITS, JobState

_FAILED = frozenset({JobState.FAILED, JobState.LOST})


@dataclass(frozen=True)
class Part:
    """One try of an index, and why it is in its state."""

    index: int
    state: JobState
    reason_code: str = ""
    reason: str = ""

    @property
    def has_failed(self) -> bool:
        """Whether it did not do its work, and nobody has ended it on purpose."""
        was_limited = self.state is JobState.CANCELLED and self.reason_code in LIMITS
        return self.state in _FAILED or was_limited


@dataclass(frozen=True)
class Progress:
    """How the parts of a job stand. `running` hold resources; `waiting` have a job that does not."""

    completions: int
    done: int = 0
    running: int = 0
    waiting: int = 0
    failures: int = 0
    retries: int = 0

    def __str__(self) -> str:
        parts = [f"{self.done} of {self.completions} done"]
        parts += [f"{self.running} running"] if self.running else []
        parts += [f"{self.waiting} waiting"] if self.waiting else []
        parts += [f"{min(self.failures, self.retries)} of {self.retries} retries used"] if self.failures else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Plan:
    """What follows: the indexes that get a job now, or the end of the whole. `why` is the part that ends it."""

    progress: Progress
    starts: Sequence[int] = ()
    end: JobState | None = None
    why: Part | None = None


def parts_variables(index: int, completions: int) -> dict[str, str]:
    """Return by which variables a part learns which one it is."""
    return {
        "NEARLINE_INDEX": str(index),
        "NEARLINE_COMPLETIONS": str(completions),
        "JOB_COMPLETION_INDEX": str(index),  # as in an indexed Job of Kubernetes
    }


def plan(parts: Sequence[Part], *, completions: int, parallelism: int, retries: int) -> Plan:
    """Return what follows from the tries so far, the oldest first.

    All succeed once each index has. The whole fails with a part that was cancelled, or failed once all retries were
    used; what failed before runs again ahead of what has not run yet. A part that was ended by a limit has failed.
    """
    latest: Mapping[int, Part] = {part.index: part for part in parts}
    failed = [part for part in parts if part.has_failed]
    live = [part for part in latest.values() if part.state not in JOB_STATES.final]
    running = sum(part.state in HOLDING for part in live)
    done = sum(part.state is JobState.SUCCEEDED for part in latest.values())
    progress = Progress(completions, done, running, len(live) - running, len(failed), retries)
    cancelled = [part for part in parts if part.state is JobState.CANCELLED and not part.has_failed]
    fatal = cancelled + failed[retries:]
    if fatal:
        return Plan(replace(progress, running=0, waiting=0), end=JobState.FAILED, why=fatal[0])
    if done == completions:
        return Plan(progress, end=JobState.SUCCEEDED)
    again = sorted(part.index for part in latest.values() if part.has_failed)
    new = (index for index in range(completions) if index not in latest)
    return Plan(progress, starts=[*again, *new][: max(0, parallelism - len(live))])
