"""Reading the database into the engine's snapshot: a fixed number of queries, whatever waits and runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from core import clock
from scheduler.engine.resources import ONE_GPU, Quota
from scheduler.engine.snapshot import (
    GroupView,
    JobView,
    NodeView,
    PodSetView,
    QueueView,
    Request,
    Snapshot,
    TaskState,
    TaskView,
)
from scheduler.engine.states import WorkloadState
from scheduler.models import Node, Placement, Promise, Queue, Workload

_MIB = 2**20
_NOMINAL_MIB = 1000
"""The size of a device whose memory is not known: then a share is counted in thousandths."""

_STUCK_AFTER = timedelta(minutes=5)
"""Who should have left for so long may never: the room is promised to nobody any more."""

_ONE_TASK = GroupView((PodSetView("", 1),))


@dataclass(frozen=True)
class View:
    """A snapshot, and what is compared when its decisions are applied.

    `told` holds code, sentence and answer of those who wait, as they stand in the database.
    """

    snapshot: Snapshot
    revisions: Mapping[str, int]
    told: Mapping[str, tuple[str, str, str | None]]
    jobs: Mapping[str, JobView]


def load(waiting: Sequence[Workload] | None = None) -> View:
    """Read everything. A project that is deleted meanwhile takes its workloads along.

    `waiting` stands in for the workloads that wait.
    """
    nodes = Node.objects.order_by("pk").prefetch_related("gpus")
    revisions = {node.pk: node.revision for node in nodes}
    views = {node.pk: _view_node(node) for node in nodes}
    if waiting is None:
        waiting = list(Workload.objects.filter(state=WorkloadState.PENDING).order_by("pk"))
    placements = Placement.objects.select_related("workload").order_by("pk")
    promises = {promise.workload_id: promise for promise in Promise.objects.order_by("pk")}
    queues = {queue.pk: view_queue(queue) for queue in Queue.objects.select_related("project").order_by("pk")}
    now = clock.now()
    jobs = [_waiting(row, promises.get(row.pk), now) for row in waiting if row.queue_id in queues]
    for placement in placements:
        if placement.workload.queue_id in queues:
            jobs += _placed(placement, promises.get(placement.workload_id), views, now)
    return View(
        Snapshot(nodes=list(views.values()), queues=list(queues.values()), jobs=jobs),
        revisions,
        {row.pk: (row.reason_code, row.reason, row.answer_id) for row in waiting},
        {job.id: job for job in jobs},
    )


def view_queue(queue: Queue) -> QueueView:
    """Return a queue as the engine sees it. The project should be loaded.

    Without a weight of its own it gets GPUs beyond the quotas as its quota is.
    """
    own = queue.over_quota_weight
    return QueueView(
        id=queue.pk,
        name=queue.project.name,
        rank=(queue.created_at,),
        quota=Quota(queue.gpu_quota_milli, queue.cpu_quota_millicores, queue.memory_quota_bytes),
        weights=(max(queue.gpu_quota_milli or 0, ONE_GPU) / ONE_GPU if own is None else own, 1, 1),
    )


def request_of(*, gpu_milli: int, cpu_millicores: int, memory_bytes: int, resource_id: str = "") -> Request:
    """Return what a workload asks for as the engine sees it; without a resource, of any nodes."""
    whole, rest = divmod(gpu_milli, ONE_GPU)
    return Request(
        gpus=whole, share_milli=rest, cpu_millicores=cpu_millicores, memory_bytes=memory_bytes, pool=resource_id
    )


def _view_node(node: Node) -> NodeView:
    gpus = node.gpus.all()
    return NodeView(
        id=node.pk,
        name=node.name,
        cpu_millicores=node.cpu_millicores,
        memory_bytes=node.memory_bytes,
        devices=tuple(sorted(gpu.index for gpu in gpus)),
        device_mib=min((gpu.memory_bytes // _MIB or _NOMINAL_MIB for gpu in gpus), default=0),
        pool=node.resource_id,
        pool_name=node.resource_name,
        is_ready=node.is_ready,
        is_drained=node.is_drained,
    )


def _waiting(workload: Workload, promise: Promise | None, now: datetime) -> JobView:
    job = _view_job(workload, TaskView(workload.pk, TaskState.PENDING, _request(workload)))
    if promise is not None:
        job = _promised(job, promise)
    return replace(job, waited_s=(now - workload.waits_since).total_seconds())


def _promised(job: JobView, promise: Promise) -> JobView:
    devices = tuple(promise.devices)
    (task,) = job.tasks
    return replace(job, tasks=(replace(task, state=TaskState.PLANNED, node_id=promise.node_id, devices=devices),))


def _placed(
    placement: Placement, promise: Promise | None, nodes: Mapping[str, NodeView], now: datetime
) -> list[JobView]:
    """Return the views of work that holds room: two if another place is promised to it, one for each of the places.

    What it held of devices that are gone is passed over. Of its checkpoints nothing is known, so its work counts as
    safe up to its start only.
    """
    workload, node = placement.workload, nodes.get(placement.node_id)
    known = {str(device) for device in node.devices} if node is not None else set()
    devices = tuple(str(index) for index, _ in placement.gpus if str(index) in known)
    node_id = None if node is None else node.id
    task = TaskView(workload.pk, TaskState.RUNNING, _request(workload), node_id=node_id, devices=devices)
    if placement.leaving_at is not None:
        state = TaskState.LEAVING if now - placement.leaving_at < _STUCK_AFTER else TaskState.STUCK
        leaving = _view_job(workload, replace(task, state=state))
        if promise is None:
            return [leaving]
        again = _view_job(workload, TaskView(workload.pk, TaskState.PENDING, _request(workload)))
        return [replace(leaving, id=placement.pk), _promised(again, promise)]
    since = workload.placed_at or placement.created_at
    running_for_s = (now - since).total_seconds()
    return [replace(_view_job(workload, task), running_for_s=running_for_s, saved_at=since.timestamp())]


def _view_job(workload: Workload, task: TaskView) -> JobView:
    return JobView(
        id=workload.pk,
        queue_id=workload.queue_id,
        tasks=(task,),
        structure=_ONE_TASK,
        priority=workload.priority,
        is_preemptible=workload.is_preemptible,
        rank=(workload.enqueued_at,),
        evictions=workload.evictions,
        name=workload.name,
    )


def _request(workload: Workload) -> Request:
    return request_of(
        gpu_milli=workload.gpu_milli,
        cpu_millicores=workload.cpu_millicores,
        memory_bytes=workload.memory_bytes,
        resource_id=workload.resource_id,
    )
