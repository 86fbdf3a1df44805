"""The frozen view of one moment that a cycle decides on: nodes, queues, and workloads that wait or hold room."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from scheduler.engine.resources import Amount, Quota


class Shape(NamedTuple):
    """What a workload asks for, and of which resource. Workloads of one shape fit in the same places."""

    resource_id: str
    needs: Amount


@dataclass(frozen=True, slots=True)
class NodeView:
    """A machine. `devices` holds the indexes of its GPUs. A drained one takes nothing new."""

    id: str
    name: str
    resource_id: str
    resource_name: str
    cpu_millicores: int
    memory_bytes: int
    devices: tuple[int, ...] = ()
    is_ready: bool = True
    is_drained: bool = False

    @property
    def is_open(self) -> bool:
        """Whether work may start on it."""
        return self.is_ready and not self.is_drained


@dataclass(frozen=True, slots=True)
class QueueView:
    """The queue of a project. `weight` divides GPUs beyond the quotas; None: in proportion to the GPU quota."""

    id: str
    name: str
    created_at: datetime
    quota: Quota = Quota()
    weight: float | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A workload that waits for room."""

    id: str
    queue_id: str
    shape: Shape
    enqueued_at: datetime
    priority: int = 50
    is_preemptible: bool = True


@dataclass(frozen=True, slots=True)
class Placed:
    """A workload that holds room. `gpus` pairs each device's index with the thousandths of it that are held."""

    id: str
    queue_id: str
    node_id: str
    holds: Amount
    gpus: tuple[tuple[int, int], ...] = ()
    is_preemptible: bool = True


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a cycle knows. The order of its parts carries no meaning."""

    nodes: Sequence[NodeView] = ()
    queues: Sequence[QueueView] = ()
    waiting: Sequence[Waiting] = ()
    placed: Sequence[Placed] = ()


class NodePlacement(StrEnum):
    """Which of several nodes with room is taken."""

    PACK = "pack"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class Policy:
    """How a site wants its room shared out: packing keeps whole nodes free, spreading keeps neighbours apart."""

    node_placement: NodePlacement = NodePlacement.PACK
