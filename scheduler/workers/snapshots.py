"""Reading the database as the engine sees it: who waits and what runs by id, and the rows of what is new or other."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from django.db.models import Model, QuerySet

from core import clock
from scheduler.engine.resources import ONE_GPU, Quota
from scheduler.engine.snapshot import (
    GroupView,
    JobView,
    NodeView,
    PodSetView,
    QueueView,
    Request,
    TaskState,
    TaskView,
)
from scheduler.engine.states import WorkloadState
from scheduler.models import Node, Placement, Promise, Queue, Workload

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
M = TypeVar("M", bound=Model)
Told = tuple[str, str, str | None]

_BATCH = 500
_MINUTE = timedelta(minutes=1)
_MIB = 2**20
_NOMINAL_MIB = 1000
"""The size of a device whose memory is not known: then a share is counted in thousandths."""

_STUCK_AFTER = timedelta(minutes=5)
"""Who should have left for so long may never: the room is promised to nobody any more."""

_ONE_TASK = GroupView((PodSetView("", 1),))


@dataclass(frozen=True)
class View:
    """What a cycle decides on, and what is compared when its decisions are applied.

    `told` holds code, sentence and answer of those who wait, as they stand in the database.
    """

    nodes: Sequence[NodeView]
    queues: Sequence[QueueView]
    jobs: Mapping[str, JobView]
    revisions: Mapping[str, int]
    told: Mapping[str, Told]

    def without(self, job_ids: Collection[str]) -> "View":
        """Return the view without these jobs."""
        return replace(self, jobs={job_id: job for job_id, job in self.jobs.items() if job_id not in job_ids})


class Books:
    """The scheduler's rows as the engine sees them. Only what has changed since the last look is read again.

    What has not changed is the same object as before. Nothing changes of a workload that waits but what it is told, of
    a placement but that it is to be left, and of a node without a new revision.
    """

    def __init__(self) -> None:
        self._nodes: dict[tuple[str, int], NodeView] = {}
        self._waiting: dict[tuple[str, int], tuple[JobView, datetime]] = {}
        self._running: dict[tuple[str, int], JobView] = {}

    def read(self, waiting: Sequence[Workload] | None = None) -> View:
        """Look at everything. A project that is deleted meanwhile takes its workloads along.

        `waiting` stands in for the workloads that wait.
        """
        now = clock.now()
        self._nodes = _update(self._nodes, _nodes_now(), _read_nodes)
        queues = [view_queue(queue) for queue in Queue.objects.select_related("project").order_by("pk")]
        promises = {promise.workload_id: promise for promise in Promise.objects.order_by("pk")}
        # Who waits is looked at first: one that is requeued meanwhile is then in neither list, and never in both.
        told = _told_now() if waiting is None else {}
        if waiting is None:
            self._waiting = _update(self._waiting, {(pk, told[pk][0]): pk for pk in told}, _read_waiting)
            jobs = self._with_waits(now)
        else:
            jobs = [_view_waiting(workload) for workload in waiting]
        jobs = [_promised(job, promises[job.id]) if job.id in promises else job for job in jobs]
        running, leaving = self._placements_now()
        nodes = {pk: node for (pk, _), node in self._nodes.items()}
        self._running = _update(self._running, running, partial(_read_running, nodes))
        jobs += self._running.values()
        for placement in _in_batches(Placement.objects.select_related("workload"), leaving):
            jobs += _view_leaving(placement, promises.get(placement.workload_id), nodes, now)
        known = {queue.id for queue in queues}
        return View(
            nodes=list(nodes.values()),
            queues=queues,
            jobs={job.id: job for job in jobs if job.queue_id in known},
            revisions=dict(self._nodes.keys()),
            told={pk: words for pk, (_, words) in told.items()},
        )

    def _with_waits(self, now: datetime) -> list[JobView]:
        """Return who waits; how long, by the minute, of those for whom room may be kept because they are big."""
        smallest = min((len(node.devices) for node in self._nodes.values() if node.devices), default=0)
        found = []
        for view, since in self._waiting.values():
            is_big = 0 < smallest <= view.tasks[0].request.gpus
            found.append(replace(view, waited_s=(now - since) // _MINUTE * 60) if is_big else view)
        return found

    def _placements_now(self) -> tuple[dict[tuple[str, int], str], list[str]]:
        """Return what runs, with the revision of its node, and what is to be left."""
        revisions = dict(self._nodes.keys())
        facts = list(Placement.objects.order_by("pk").values_list("pk", "node_id", "leaving_at"))
        running = {(pk, revisions.get(node_id, 0)): pk for pk, node_id, leaving_at in facts if leaving_at is None}
        return running, [pk for pk, _, leaving_at in facts if leaving_at is not None]


def _update(before: Mapping[K, V], now: Mapping[K, str], read: Callable[[list[str]], Mapping[str, V]]) -> dict[K, V]:
    """Return what there is now, by key. Only for keys that are new their rows are read, by id; some may be gone."""
    found = read([pk for key, pk in now.items() if key not in before])
    return {key: before[key] if key in before else found[pk] for key, pk in now.items() if key in before or pk in found}


def _in_batches(rows: QuerySet[M], pks: Sequence[str]) -> list[M]:
    batches = (pks[start : start + _BATCH] for start in range(0, len(pks), _BATCH))
    return [row for batch in batches for row in rows.filter(pk__in=batch).order_by("pk")]


def _nodes_now() -> dict[tuple[str, int], str]:
    return {(pk, revision): pk for pk, revision in Node.objects.order_by("pk").values_list("pk", "revision")}


def _read_nodes(pks: list[str]) -> dict[str, NodeView]:
    return {row.pk: _view_node(row) for row in _in_batches(Node.objects.prefetch_related("gpus"), pks)}


def _told_now() -> dict[str, tuple[int, Told]]:
    """Return of those who wait how often they were evicted, and what they were told."""
    pending = Workload.objects.filter(state=WorkloadState.PENDING).order_by("pk")
    facts = pending.values_list("pk", "evictions", "reason_code", "reason", "answer_id")
    return {pk: (evictions, (code, reason, answer)) for pk, evictions, code, reason, answer in facts}


def _read_waiting(pks: list[str]) -> dict[str, tuple[JobView, datetime]]:
    return {row.pk: (_view_waiting(row), row.waits_since) for row in _in_batches(Workload.objects.all(), pks)}


def _read_running(nodes: Mapping[str, NodeView], pks: list[str]) -> dict[str, JobView]:
    """Return the views of work that runs. Nothing is known of its checkpoints, so it is safe up to its start only."""
    found = {}
    for placement in _in_batches(Placement.objects.select_related("workload"), pks):
        workload = placement.workload
        since = workload.placed_at or placement.created_at
        view = _view_job(workload, _view_place(placement, nodes, TaskState.RUNNING))
        found[placement.pk] = replace(view, saved_at=since.timestamp())
    return found


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


def _view_waiting(workload: Workload) -> JobView:
    return _view_job(workload, TaskView(workload.pk, TaskState.PENDING, _request(workload)))


def _promised(job: JobView, promise: Promise) -> JobView:
    devices = tuple(promise.devices)
    (task,) = job.tasks
    return replace(job, tasks=(replace(task, state=TaskState.PLANNED, node_id=promise.node_id, devices=devices),))


def _view_leaving(
    placement: Placement, promise: Promise | None, nodes: Mapping[str, NodeView], now: datetime
) -> list[JobView]:
    """Return the views of work that is to leave: two if another place is promised to it, one for each of the places."""
    workload, since = placement.workload, placement.leaving_at or now
    state = TaskState.LEAVING if now - since < _STUCK_AFTER else TaskState.STUCK
    leaving = _view_job(workload, _view_place(placement, nodes, state))
    if promise is None:
        return [leaving]
    return [replace(leaving, id=placement.pk), _promised(_view_waiting(workload), promise)]


def _view_place(placement: Placement, nodes: Mapping[str, NodeView], state: TaskState) -> TaskView:
    """Return the task that holds room. What it held of devices that are gone is passed over."""
    node, workload = nodes.get(placement.node_id), placement.workload
    known = {str(device) for device in node.devices} if node is not None else set()
    devices = tuple(str(index) for index, _ in placement.gpus if str(index) in known)
    node_id = None if node is None else node.id
    return TaskView(workload.pk, state, _request(workload), node_id=node_id, devices=devices)


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
        name=str(workload),
    )


def _request(workload: Workload) -> Request:
    return request_of(
        gpu_milli=workload.gpu_milli,
        cpu_millicores=workload.cpu_millicores,
        memory_bytes=workload.memory_bytes,
        resource_id=workload.resource_id,
    )
