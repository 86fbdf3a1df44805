"""The proof of a "no": which bound or which nodes prevent a start, by how much, and what would change that.

Amounts are counted as everywhere: thousandths of GPUs, millicores, bytes; memory of a device in MiB.
"""

from dataclasses import dataclass
from enum import StrEnum


class Resource(StrEnum):
    """What may fall short. `tasks` is how many pods a node takes, or how many pods of a gang fit."""

    GPU = "gpu"
    DEVICE_MEMORY = "device_memory"
    MIG = "mig"
    CPU = "cpu"
    MEMORY = "memory"
    PODS = "tasks"


class BoundKind(StrEnum):
    """A quota bounds work that is not preemptible, a limit bounds all work."""

    QUOTA = "quota"
    LIMIT = "limit"


class Cause(StrEnum):
    """Why a node does not serve a pod, or that it could (`has_room`). `too_small` is so even when it is empty."""

    NOT_ALLOWED = "not_allowed"
    TOO_SMALL = "too_small"
    NOT_READY = "not_ready"
    DRAINED = "drained"
    BUSY = "busy"
    RESERVED = "kept"
    HAS_CAPACITY = "has_room"


class Remedy(StrEnum):
    """What a person could do, or wait for. The values are those of the API."""

    RAISE_QUOTA = "raise_quota"
    RAISE_LIMIT = "raise_limit"
    BE_PREEMPTIBLE = "be_preemptible"
    WAIT_FOR_QUEUE = "wait_for_queue"
    WAIT_FOR_NODE = "wait_for_node"
    WAIT_FOR_CAPACITY = "wait_for_room"
    WAIT_FOR_JOB = "wait_for_job"
    ASK_LESS = "ask_less"
    DROP_POOL = "drop_pool"
    ALLOW_NODES = "allow_nodes"
    OPEN_NODE = "open_node"
    REPAIR_NODE = "repair_node"


WAITS = frozenset({Remedy.WAIT_FOR_QUEUE, Remedy.WAIT_FOR_NODE, Remedy.WAIT_FOR_CAPACITY, Remedy.WAIT_FOR_JOB})
"""What nobody has to do."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """One resource of which less is there than is asked for. `profile` says which MIG slices, if it is those."""

    resource: Resource
    asked: int
    available: int
    profile: str = ""

    @property
    def missing(self) -> int:
        """By how much it falls short."""
        return self.asked - self.available


@dataclass(frozen=True, slots=True)
class Bound:
    """A quota or limit of a queue that the job would pass."""

    queue_id: str
    queue: str
    kind: BoundKind
    resource: Resource
    amount: int
    held: int
    asked: int

    @property
    def missing(self) -> int:
        """By how much it would be passed."""
        return self.held + self.asked - self.amount


@dataclass(frozen=True, slots=True)
class NodeShortfall:
    """A node that does not serve a pod, with what is missing there."""

    node_id: str
    node: str
    cause: Cause
    shortages: tuple[Shortage, ...]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One thing that would let the job start, or bring it nearer. `where` names the queue, work, node, pool or job.

    `profile` says which MIG slices, if it is those.
    """

    remedy: Remedy
    where: str = ""
    resource: Resource | None = None
    amount: int = 0
    profile: str = ""


@dataclass(frozen=True, slots=True)
class Proof:
    """Everything behind a "no". Of `needed` pods, `placeable` would find capacity now, each for itself.

    `nearest` are the few nodes that lack least; `others` counts all further ones by cause. For a job that names several
    `pools` there is the proof of each, with its name, and all the rest is that of the one which comes nearest.
    """

    needed: int
    placeable: int
    bounds: tuple[Bound, ...] = ()
    nearest: tuple[NodeShortfall, ...] = ()
    others: tuple[tuple[Cause, int], ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    pools: tuple[tuple[str, "Proof"], ...] = ()
