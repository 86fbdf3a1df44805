"""What a cycle decides: who gets which room, and why the others wait."""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.engine.proof import Proof


class WaitCode(StrEnum):
    """Why a job waits, as a name for programs."""

    NO_ROOM = "no_room"
    NEVER_FITS = "never_fits"
    UNREACHABLE = "resource_unreachable"
    DRAINED = "drained"
    BEYOND_QUOTA = "beyond_quota"
    BEYOND_LIMIT = "beyond_limit"
    KEPT = "kept_for_another"
    NOT_ALLOWED = "not_allowed"
    NOT_TOGETHER = "not_together"
    INCOMPLETE = "incomplete"
    NEXT_CYCLE = "next_cycle"


@dataclass(frozen=True, slots=True)
class Start:
    """Start a task on a node, on the devices named: whole ones, those of which it gets a share, or slices to be cut."""

    job_id: str
    task_id: str
    node_id: str
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Keep room on a node for a task until those who leave it are gone; `devices` names the shares or slices of it."""

    job_id: str
    task_id: str
    node_id: str
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Give up the room that was kept for a task: it cannot come any more."""

    job_id: str
    task_id: str


class StopCode(StrEnum):
    """Why a task is stopped, as a name for programs.

    A job that has reached a limit of time is over: nobody may list it as waiting again. All the others wait for room.
    """

    MOVED = "moved"
    RECLAIMED = "reclaimed"
    PREEMPTED = "preempted"
    STALE = "stale"
    TIME_LIMIT = "time_limit"
    IDLE_LIMIT = "idle_limit"


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop a task. `moves_to` names the node that was promised to it, if one was; `for_job` who gets the room."""

    job_id: str
    task_id: str
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


Decision = Start | Plan | Withdraw | Stop | Explain
