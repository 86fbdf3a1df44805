"""What a plan consists of: decisions about one run, frozen, in the order in which they are applied."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from flows.engine.states import AttemptState, FailureKind, RunState, StepState


@dataclass(frozen=True)
class Tried:
    """A template that was left for the next one: how long the step waited there, and why it went on."""

    template: str
    waited_s: float
    why: str


@dataclass(frozen=True)
class Reset:
    """Open an ended step again."""

    step_id: str


@dataclass(frozen=True)
class Start:
    """Begin an attempt and submit its job. `prepares`: that is queued once its datasets are staged."""

    step_id: str
    number: int
    choice: int
    template: str
    tried: tuple[Tried, ...]
    why: str
    prepares: bool
    remind_at: datetime | None


@dataclass(frozen=True)
class Submit:
    """Queue the job of an attempt whose datasets are in place."""

    step_id: str
    attempt_id: str
    remind_at: datetime | None


@dataclass(frozen=True)
class Observe:
    """Note that an attempt's job got its place."""

    step_id: str
    attempt_id: str
    template: str


@dataclass(frozen=True)
class Requeue:
    """Note that an attempt's job lost its place to others and waits again."""

    step_id: str
    attempt_id: str
    template: str
    remind_at: datetime | None


@dataclass(frozen=True)
class Bring:
    """Bring the datasets of an attempt that waits to where the next template reads them; it keeps its place in line."""

    step_id: str
    attempt_id: str
    template: str
    why: str


@dataclass(frozen=True)
class BringNext:
    """Note that the datasets of a step whose parents still run are brought to where it will likely start."""

    step_id: str
    template: str
    words: str


@dataclass(frozen=True)
class ReleaseData:
    """Note that datasets which were brought ahead for a step are not needed there after all."""

    step_id: str
    reason: str


@dataclass(frozen=True)
class Supersede:
    """Withdraw a waiting job and begin elsewhere; without effect if the job gets its place first."""

    step_id: str
    attempt_id: str
    why: str
    start: Start


@dataclass(frozen=True)
class End:
    """Close an attempt."""

    step_id: str
    attempt_id: str
    state: AttemptState
    failure: FailureKind | None
    reason: str


@dataclass(frozen=True)
class Settle:
    """Change the state of a step that has no live attempt. `chosen` is the attempt that speaks for it."""

    step_id: str
    state: StepState
    reason: str
    failures: Mapping[FailureKind, int]
    not_before: datetime | None
    chosen: str | None


@dataclass(frozen=True)
class Cancel:
    """Ask an attempt's job to end."""

    attempt_id: str
    reason: str


@dataclass(frozen=True)
class Remind:
    """Look at this attempt again at that time, news or not."""

    attempt_id: str
    at: datetime | None


@dataclass(frozen=True)
class Finish:
    """Close the run."""

    state: RunState
    reason: str


Transition = (
    Reset
    | Start
    | Submit
    | Observe
    | Requeue
    | Bring
    | BringNext
    | ReleaseData
    | Supersede
    | End
    | Settle
    | Cancel
    | Remind
    | Finish
)
