"""What a cycle decides: which pod is placed where, which is stopped, and why the others wait."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scheduler.engine.proof import Proof


class WaitCode(StrEnum):
    """Why a job waits, as a name for programs."""

    NO_CAPACITY = "no_room"
    NEVER_FITS = "never_fits"
    UNREACHABLE = "resource_unreachable"
    DRAINED = "drained"
    BEYOND_QUOTA = "beyond_quota"
    BEYOND_LIMIT = "beyond_limit"
    RESERVED = "kept_for_another"
    NOT_ALLOWED = "not_allowed"
    NOT_TOGETHER = "not_together"
    INCOMPLETE = "incomplete"
    NEXT_CYCLE = "next_cycle"


@dataclass(frozen=True, slots=True)
class Start:
    """Start a pod on a node, on the devices named: whole ones, those of which it gets a share, or slices to be cut."""

    job_id: str
    pod_id: str
    node_id: str
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reserve:
    """Reserve capacity on a node for a pod until others have terminated; `devices` names the shares or slices."""

    job_id: str
    pod_id: str
    node_id: str
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Drop the reservation of a pod: the capacity cannot become free any more."""

    job_id: str
    pod_id: str


class StopCode(StrEnum):
    """Why a pod is stopped, as a name for programs.

    A job that has reached a time limit is over and must not be queued again. All others are requeued.
    """

    MOVED = "moved"
    RECLAIMED = "reclaimed"
    PREEMPTED = "preempted"
    STALE = "stale"
    TIME_LIMIT = "time_limit"
    IDLE_LIMIT = "idle_limit"


FOR_GOOD = frozenset({StopCode.TIME_LIMIT, StopCode.IDLE_LIMIT})
"""Who is stopped for these is not queued again."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop a pod. `moves_to` names the node reserved for it, if any; `for_job` the job that gets its capacity."""

    job_id: str
    pod_id: str
    moves_to: str | None
    code: StopCode
    text: str
    for_job: str | None = None


@dataclass(frozen=True, slots=True)
class Explain:
    """Say why a job waits; `text` names numbers that a person can act on, `advice` what would let it start."""

    job_id: str
    code: WaitCode
    text: str
    advice: str
    proof: Proof


@dataclass(frozen=True, slots=True)
class Answer:
    """What `Explain` says to several jobs at once.

    `question` is what they have in common and the answer depends on, the state of the cluster left aside: it goes on as
    long as they wait for the same, and its text (`repr`) is the same in each process.
    """

    question: tuple[object, ...]
    code: WaitCode
    text: str
    advice: str
    proof: Proof
    job_ids: Sequence[str]


Move = Start | Reserve | Withdraw | Stop
Decision = Move | Explain
