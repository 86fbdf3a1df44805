"""What the scheduler's routes take and answer."""

from datetime import datetime
from typing import Annotated

from ninja import Field, Schema

from core import bounds
from scheduler.engine.proof import BoundKind, Cause, Remedy, Resource
from scheduler.engine.states import WorkloadState
from scheduler.models import Node, Queue, Workload
from scheduler.selectors.nodes import held_on


class QueueOut(Schema):
    """The queue of a project: what is guaranteed to it, and what it holds now."""

    project: str
    gpu_quota_milli: int
    cpu_quota_millicores: int | None
    memory_quota_bytes: int | None
    over_quota_weight: float | None
    gpu_held_milli: int
    cpu_held_millicores: int
    memory_held_bytes: int
    placed_workloads: int
    waiting_workloads: int

    @staticmethod
    def resolve_project(queue: Queue) -> str:
        """Return the project's name."""
        return queue.label


class QueuesOut(Schema):
    """A page of queues."""

    items: list[QueueOut]
    next_cursor: str | None


class QuotaIn(Schema):
    """What to guarantee; what is left out stays. Null: CPU and memory without bound, a weight as the GPU quota."""

    gpu_quota_milli: bounds.Quantity = 0
    cpu_quota_millicores: bounds.Quantity | None = None
    memory_quota_bytes: bounds.Quantity | None = None
    over_quota_weight: Annotated[float, Field(ge=0, le=10**9)] | None = None


class GpuOut(Schema):
    """One device of a node."""

    index: int
    uuid: str
    model: str
    memory_bytes: int
    held_milli: int


class NodeOut(Schema):
    """A node, what it has, and how much of that is held."""

    id: str
    name: str
    resource: str
    is_ready: bool
    is_drained: bool
    is_simulated: bool
    labels: dict[str, str]
    cpu_millicores: int
    memory_bytes: int
    cpu_held_millicores: int
    memory_held_bytes: int
    gpus: list[GpuOut]

    @staticmethod
    def of(node: Node) -> "NodeOut":
        """Return the answer for a node that `list_nodes` returned."""
        held = held_on(node)
        devices = sorted(node.gpus.all(), key=lambda gpu: gpu.index)
        return NodeOut(
            id=node.pk,
            name=node.name,
            resource=node.resource_name,
            is_ready=node.is_ready,
            is_drained=node.is_drained,
            is_simulated=node.is_simulated,
            labels=node.labels,
            cpu_millicores=node.cpu_millicores,
            memory_bytes=node.memory_bytes,
            cpu_held_millicores=held.cpu_millicores,
            memory_held_bytes=held.memory_bytes,
            gpus=[
                GpuOut(
                    index=gpu.index,
                    uuid=gpu.uuid,
                    model=gpu.model,
                    memory_bytes=gpu.memory_bytes,
                    held_milli=held.gpu_milli.get(gpu.index, 0),
                )
                for gpu in devices
            ],
        )


class NodeChangeIn(Schema):
    """What an admin may say about a node: a drained one takes nothing new."""

    is_drained: bool


class NodesOut(Schema):
    """A page of nodes."""

    items: list[NodeOut]
    next_cursor: str | None


class ShortageOut(Schema):
    """One resource of which less is there than is asked for, in thousandths, millicores, bytes, MiB or pieces.

    `profile` says which MIG slices, if it is those.
    """

    resource: Resource
    asked: int
    available: int
    profile: str


class BoundOut(Schema):
    """A quota or limit of a queue that the workload would pass."""

    queue_id: str
    queue: str
    kind: BoundKind
    resource: Resource
    amount: int
    held: int
    asked: int


class NodeShortfallOut(Schema):
    """A node that does not serve the workload, with what is missing there."""

    node_id: str
    node: str
    cause: Cause
    shortages: list[ShortageOut]


class UnblockOut(Schema):
    """One thing that would let the workload start, or bring it nearer. `where` names the queue, node, pool or job.

    `profile` says which MIG slices, if it is those.
    """

    way: Remedy
    where: str
    resource: Resource | None
    amount: int
    profile: str


class ProofOut(Schema):
    """Everything behind a "no": `nearest` are the nodes that lack least, `others` counts all further ones by cause."""

    needed: int
    placeable: int
    bounds: list[BoundOut]
    nearest: list[NodeShortfallOut]
    others: dict[Cause, int]
    unblock: list[UnblockOut]


class WorkloadOut(Schema):
    """A workload: what it asks for, and where it is or why it waits, what would let it start, and the proof."""

    id: str
    name: str
    project: str
    state: WorkloadState
    reason: str
    reason_code: str
    advice: str
    proof: ProofOut | None
    priority: int
    is_preemptible: bool
    cpu_millicores: int
    memory_bytes: int
    gpu_milli: int
    evictions: int
    enqueued_at: datetime
    placed_at: datetime | None
    released_at: datetime | None
    node: str | None
    gpus: list[tuple[int, int]]

    @staticmethod
    def resolve_project(workload: Workload) -> str:
        """Return the project's name."""
        return workload.project.name

    @staticmethod
    def resolve_advice(workload: Workload) -> str:
        """Return what would let it start; empty while nothing is known, and once it has its capacity."""
        return workload.answer.advice if workload.answer is not None else ""

    @staticmethod
    def resolve_proof(workload: Workload) -> object:
        """Return the proof that it has to wait; None while there is none."""
        return workload.answer.proof if workload.answer is not None else None

    @staticmethod
    def resolve_node(workload: Workload) -> str | None:
        """Return the name of the node that all its pods are on; None while they are on none, or on several."""
        names = {placement.node.name for placement in workload.placements.all()}
        return names.pop() if len(names) == 1 else None

    @staticmethod
    def resolve_gpus(workload: Workload) -> list[tuple[int, int]]:
        """Return the devices that its pods hold on the node, with the thousandths of each."""
        placements = workload.placements.all()
        is_one_node = len({placement.node_id for placement in placements}) == 1
        return [gpu for placement in placements for gpu in placement.gpus] if is_one_node else []


class WorkloadsOut(Schema):
    """A page of workloads."""

    items: list[WorkloadOut]
    next_cursor: str | None
