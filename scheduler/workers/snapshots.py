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
    PodState,
    PodView,
    QueueView,
    Request,
)
from scheduler.engine.states import WorkloadState
from scheduler.models import Node, Placement, Queue, Reservation, Workload

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
M = TypeVar("M", bound=Model)
StoredAnswer = tuple[str, str, str | None]

_BATCH = 500
_MINUTE = timedelta(minutes=1)
_MIB = 2**20
_NOMINAL_MIB = 1000
"""The size of a device whose memory is not known: then a share is counted in thousandths."""

_STUCK_AFTER = timedelta(minutes=5)
"""A workload that has been terminating for so long may never stop: its capacity is not reserved any more."""

_ONE_POD = GroupView((PodSetView("", 1),))


@dataclass(frozen=True)
class ClusterView:
    """What a cycle decides on, and what is compared when its decisions are applied.

    `answers` holds code, sentence and answer id of each pending workload, as stored.
    """

    nodes: Sequence[NodeView]
    queues: Sequence[QueueView]
    jobs: Mapping[str, JobView]
    revisions: Mapping[str, int]
    answers: Mapping[str, StoredAnswer]

    def without(self, job_ids: Collection[str]) -> "ClusterView":
        """Return the view without these jobs."""
        return replace(self, jobs={job_id: job for job_id, job in self.jobs.items() if job_id not in job_ids})


class SnapshotReader:
    """Reads the scheduler's rows as the engine sees them. Only what has changed since the last call is read again.

    What has not changed is the same object as before. A pending workload changes only its answer, a placement only
    when it is evicted, and a node only with a new revision.
    """

    def __init__(self) -> None:
        self._nodes: dict[tuple[str, int], NodeView] = {}
        self._waiting: dict[tuple[str, int], tuple[JobView, datetime]] = {}
        self._running: dict[tuple[str, int], JobView] = {}

    def read(self, waiting: Sequence[Workload] | None = None) -> ClusterView:
        """Return the present state. A project that is deleted meanwhile takes its workloads along.

        `waiting` replaces the pending workloads.
        """
        now = clock.now()
        self._nodes = _update(self._nodes, _nodes_now(), _read_nodes)
        queues = [view_queue(queue) for queue in Queue.objects.select_related("project").order_by("pk")]
        reservations = {reservation.workload_id: reservation for reservation in Reservation.objects.order_by("pk")}
        # Pending workloads are read first: one that is requeued meanwhile is then in neither list, and never in both.
        answers = _read_answers() if waiting is None else {}
        if waiting is None:
            self._waiting = _update(self._waiting, {(pk, answers[pk][0]): pk for pk in answers}, _read_waiting)
            jobs = self._with_waits(now)
        else:
            jobs = [_view_waiting(workload) for workload in waiting]
        jobs = [_with_reservation(job, reservations[job.id]) if job.id in reservations else job for job in jobs]
        running, leaving = self._placements_now()
        nodes = {pk: node for (pk, _), node in self._nodes.items()}
        self._running = _update(self._running, running, partial(_read_running, nodes))
        jobs += self._running.values()
        for placement in _in_batches(Placement.objects.select_related("workload"), leaving):
            jobs += _view_terminating(placement, reservations.get(placement.workload_id), nodes, now)
        known = {queue.id for queue in queues}
        return ClusterView(
            nodes=list(nodes.values()),
            queues=queues,
            jobs={job.id: job for job in jobs if job.queue_id in known},
            revisions=dict(self._nodes.keys()),
            answers={pk: words for pk, (_, words) in answers.items()},
        )

    def _with_waits(self, now: datetime) -> list[JobView]:
        """Return the pending jobs; with their wait, by the minute, where nodes may be reserved for them."""
        smallest = min((len(node.devices) for node in self._nodes.values() if node.devices), default=0)
        found = []
        for view, since in self._waiting.values():
            is_big = 0 < smallest <= view.pods[0].request.gpus
            found.append(replace(view, waited_s=(now - since) // _MINUTE * 60) if is_big else view)
        return found

    def _placements_now(self) -> tuple[dict[tuple[str, int], str], list[str]]:
        """Return what runs, with the revision of its node, and what is evicted."""
        revisions = dict(self._nodes.keys())
        facts = list(Placement.objects.order_by("pk").values_list("pk", "node_id", "evicting_since"))
        running = {
            (pk, revisions.get(node_id, 0)): pk for pk, node_id, evicting_since in facts if evicting_since is None
        }
        return running, [pk for pk, _, evicting_since in facts if evicting_since is not None]


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


def _read_answers() -> dict[str, tuple[int, StoredAnswer]]:
    """Return the evictions of each pending workload, and its stored answer."""
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
        view = _view_job(workload, _view_place(placement, nodes, PodState.RUNNING))
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
    return _view_job(workload, PodView(workload.pk, PodState.PENDING, _request(workload)))


def _with_reservation(job: JobView, reservation: Reservation) -> JobView:
    devices = tuple(reservation.devices)
    (pod,) = job.pods
    return replace(job, pods=(replace(pod, state=PodState.RESERVED, node_id=reservation.node_id, devices=devices),))


def _view_terminating(
    placement: Placement, reservation: Reservation | None, nodes: Mapping[str, NodeView], now: datetime
) -> list[JobView]:
    """Return the views of an evicted workload: two if another place is reserved for it, one for each place."""
    workload, since = placement.workload, placement.evicting_since or now
    state = PodState.TERMINATING if now - since < _STUCK_AFTER else PodState.STUCK_TERMINATING
    leaving = _view_job(workload, _view_place(placement, nodes, state))
    if reservation is None:
        return [leaving]
    return [replace(leaving, id=placement.pk), _with_reservation(_view_waiting(workload), reservation)]


def _view_place(placement: Placement, nodes: Mapping[str, NodeView], state: PodState) -> PodView:
    """Return the pod that holds capacity. What it held of devices that are gone is passed over."""
    node, workload = nodes.get(placement.node_id), placement.workload
    known = {str(device) for device in node.devices} if node is not None else set()
    devices = tuple(str(index) for index, _ in placement.gpus if str(index) in known)
    node_id = None if node is None else node.id
    return PodView(workload.pk, state, _request(workload), node_id=node_id, devices=devices)


def _view_job(workload: Workload, pod: PodView) -> JobView:
    return JobView(
        id=workload.pk,
        queue_id=workload.queue_id,
        pods=(pod,),
        structure=_ONE_POD,
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
