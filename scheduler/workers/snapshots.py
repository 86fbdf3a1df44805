"""Reading the database as the engine sees it: who waits and what runs by id, and the rows of what is new or other."""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

from django.db.models import Model, QuerySet

from core import clock, orm
from core.units import ONE_GPU
from scheduler.engine.resources import Quota
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
from scheduler.models import FIRST_POD, Node, Placement, Queue, Reservation, Workload

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
M = TypeVar("M", bound=Model)
StoredAnswer = tuple[str, str, str | None]

_MINUTE = timedelta(minutes=1)
_MIB = 2**20
_NOMINAL_MIB = 1000
"""The size of a device whose memory is not known: then a share is counted in thousandths."""

_STUCK_AFTER = timedelta(minutes=5)
"""A workload that has been terminating for so long may never stop: its capacity is not reserved any more."""

_ONE_POD = GroupView((PodSetView("", 1),))


@dataclass(frozen=True)
class ClusterView:
    """What a cycle decides on in one pool, and what is compared when its decisions are applied.

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

    What has not changed is the same object as before. A pending workload changes only its answer, or its revision; a
    placement only when it is evicted, and a node only with a new revision.
    """

    def __init__(self) -> None:
        self._nodes: dict[tuple[str, int], _Node] = {}
        self._waiting: dict[tuple[str, int, int], _WaitingJob] = {}
        self._running: dict[tuple[str, int], _PlacedPod] = {}

    def read(self, waiting: Sequence[Workload] | None = None) -> Mapping[str, ClusterView]:
        """Return the present state of each pool. A project that is deleted meanwhile takes its workloads along.

        `waiting` replaces the pending workloads.
        """
        now = clock.now()
        self._nodes = _update(self._nodes, _nodes_now(), _read_nodes)
        rows = Queue.objects.select_related("project").order_by("pk")
        queues = [(row.pool_id, view_queue(row)) for row in rows]
        reservations = _Reservations(Reservation.objects.order_by("pk"))
        # Pending workloads are read first: one that is requeued meanwhile is then in neither list, and never in both.
        answers: Mapping[str, StoredAnswer] = {}
        if waiting is None:
            present, answers = _waiting_now()
            self._waiting = _update(self._waiting, present, _read_waiting)
            pending = self._with_waits(now)
        else:
            pending = [view_pending(workload) for workload in waiting]
        running, evicted = self._placements_now()
        nodes = {pk: node.view for (pk, _), node in self._nodes.items()}
        self._running = _update(self._running, running, partial(_read_running, nodes))
        held = list(self._running.values())
        terminating = _read_terminating(evicted, nodes, now) if evicted else []
        jobs = _join(pending, held, terminating, reservations)
        return self._by_pool(queues, jobs, answers)

    def _by_pool(
        self, queues: Sequence[tuple[str, QueueView]], jobs: Sequence[JobView], answers: Mapping[str, StoredAnswer]
    ) -> Mapping[str, ClusterView]:
        """Return what belongs to each pool: its nodes, its queues, and the jobs in these."""
        pool_of = {queue.id: pool_id for pool_id, queue in queues}
        pool_ids = sorted({*pool_of.values(), *(node.pool_id for node in self._nodes.values())})
        if len(pool_ids) == 1:
            jobs_of = {pool_ids[0]: {job.id: job for job in jobs if job.queue_id in pool_of}}
        else:
            jobs_of = {pool_id: {} for pool_id in pool_ids}
            for job in jobs:
                if (pool_id := pool_of.get(job.queue_id)) is not None:
                    jobs_of[pool_id][job.id] = job
        return {
            pool_id: ClusterView(
                nodes=[node.view for node in self._nodes.values() if node.pool_id == pool_id],
                queues=[queue for owner, queue in queues if owner == pool_id],
                jobs=members,
                revisions={pk: revision for (pk, revision), node in self._nodes.items() if node.pool_id == pool_id},
                answers=answers,
            )
            for pool_id, members in jobs_of.items()
        }

    def _with_waits(self, now: datetime) -> list[JobView]:
        """Return the pending jobs; with their wait, by the minute, where nodes may be reserved for them."""
        smallest = min((len(node.view.devices) for node in self._nodes.values() if node.view.devices), default=0)
        return [
            replace(view, waited_s=(now - since) // _MINUTE * 60) if 0 < smallest <= gpus else view
            for view, since, gpus in self._waiting.values()
        ]

    def _placements_now(self) -> tuple[dict[tuple[str, int], str], list[str]]:
        """Return what runs, with the revision of its node, and what is evicted."""
        revisions = dict(self._nodes.keys())
        facts = list(Placement.objects.order_by("pk").values_list("pk", "node_id", "evicting_since"))
        running = {(pk, revisions.get(node_id, 0)): pk for pk, node_id, since in facts if since is None}
        return running, [pk for pk, _, since in facts if since is not None]


class _WaitingJob(NamedTuple):
    """A pending job, since when it waits, and the GPUs of all its pods."""

    view: JobView
    since: datetime
    gpus: float


@dataclass(frozen=True)
class _Node:
    pool_id: str
    view: NodeView


@dataclass(frozen=True)
class _PlacedPod:
    """A pod that holds capacity, in its job: of several pods all the others of `job` are pending there."""

    job: JobView
    pod: PodView


class _Reservations:
    """The reservations of pods, by their ids."""

    def __init__(self, rows: Iterable[Reservation]) -> None:
        self._rows = {(row.workload_id, row.pod): row for row in rows}
        self._job_ids = {job_id for job_id, _ in self._rows}

    def find(self, pod: PodView, job_id: str) -> Reservation | None:
        """Return the reservation of a pod of a job, if it has one."""
        return self._rows.get((job_id, pod_name(pod.id))) if job_id in self._job_ids else None

    def reserved(self, job: JobView) -> JobView:
        """Return a job with those of its pending pods reserved for which capacity is."""
        if job.id not in self._job_ids:
            return job
        pods = tuple(
            pod if pod.state is not PodState.PENDING or (row := self.find(pod, job.id)) is None else _reserved(pod, row)
            for pod in job.pods
        )
        return replace(job, pods=pods)


def _reserved(pod: PodView, row: Reservation) -> PodView:
    return replace(pod, state=PodState.RESERVED, node_id=row.node_id, devices=tuple(row.devices))


def _join(
    pending: Sequence[JobView],
    running: Sequence[_PlacedPod],
    terminating: Sequence[tuple[str, _PlacedPod]],
    reservations: _Reservations,
) -> list[JobView]:
    """Return the jobs with the states of their pods.

    A pod that terminates in one place while another one is reserved for it stands there as a job of its own.
    """
    jobs = [reservations.reserved(job) for job in pending]
    jobs += [placed.job for placed in running if placed.job.structure is _ONE_POD]
    several: dict[str, list[_PlacedPod]] = defaultdict(list)
    for placed in [placed for placed in running if placed.job.structure is not _ONE_POD]:
        several[placed.job.id].append(placed)
    for placement_id, placed in terminating:
        if reservations.find(placed.pod, placed.job.id) is not None:
            jobs.append(replace(placed.job, id=placement_id, pods=(placed.pod,), structure=_ONE_POD))
            again = replace(placed.pod, state=PodState.PENDING, node_id=None, devices=())
            placed = _PlacedPod(placed.job, again)  # noqa: PLW2901 (it is pending beside the place that it leaves)
        several[placed.job.id].append(placed)
    for members in several.values():
        pods = {placed.pod.id: placed.pod for placed in members}
        job = members[0].job
        job = replace(job, pods=tuple(pods.get(pod.id, pod) for pod in job.pods))
        jobs.append(reservations.reserved(job))
    return jobs


def _update(before: Mapping[K, V], now: Mapping[K, str], read: Callable[[list[str]], Mapping[str, V]]) -> dict[K, V]:
    """Return what there is now, by key. Only for keys that are new their rows are read, by id; some may be gone."""
    found = read([pk for key, pk in now.items() if key not in before])
    return {key: before[key] if key in before else found[pk] for key, pk in now.items() if key in before or pk in found}


def _in_batches(rows: QuerySet[M], pks: Sequence[str]) -> list[M]:
    return [row for batch in orm.in_batches(pks) for row in rows.filter(pk__in=batch).order_by("pk")]


def _nodes_now() -> dict[tuple[str, int], str]:
    return {(pk, revision): pk for pk, revision in Node.objects.order_by("pk").values_list("pk", "revision")}


def _read_nodes(pks: list[str]) -> dict[str, _Node]:
    rows = _in_batches(Node.objects.prefetch_related("gpus"), pks)
    return {row.pk: _Node(row.pool_id, _view_node(row)) for row in rows}


def _waiting_now() -> tuple[dict[tuple[str, int, int], str], dict[str, StoredAnswer]]:
    """Return the pending workloads, with their evictions and revisions, and their stored answers."""
    pending = Workload.objects.filter(state=WorkloadState.PENDING).order_by("pk")
    facts = list(pending.values_list("pk", "evictions", "revision", "reason_code", "reason", "answer_id"))
    present = {(pk, evictions, revision): pk for pk, evictions, revision, *_ in facts}
    return present, {pk: (code, reason, answer) for pk, _, _, code, reason, answer in facts}


def _read_waiting(pks: list[str]) -> dict[str, _WaitingJob]:
    return {row.pk: _waiting(row) for row in _in_batches(Workload.objects.all(), pks)}


def _waiting(row: Workload) -> _WaitingJob:
    view = view_pending(row)
    return _WaitingJob(view, row.waits_since, sum(pod.request.gpus for pod in view.pods))


def _read_running(nodes: Mapping[str, NodeView], pks: list[str]) -> dict[str, _PlacedPod]:
    """Return the views of pods that run. Nothing is known of checkpoints, so work is safe up to its start only."""
    rows = _in_batches(Placement.objects.select_related("workload"), pks)
    jobs: dict[str, JobView] = {}
    return {row.pk: _view_placed(row, jobs, nodes, PodState.RUNNING) for row in rows}


def _read_terminating(pks: Sequence[str], nodes: Mapping[str, NodeView], now: datetime) -> list[tuple[str, _PlacedPod]]:
    rows = _in_batches(Placement.objects.select_related("workload"), pks)
    jobs: dict[str, JobView] = {}
    return [(row.pk, _view_placed(row, jobs, nodes, _terminating_state(row, now))) for row in rows]


def _terminating_state(row: Placement, now: datetime) -> PodState:
    is_stuck = now - (row.evicting_since or now) >= _STUCK_AFTER
    return PodState.STUCK_TERMINATING if is_stuck else PodState.TERMINATING


def _view_placed(
    row: Placement, jobs: dict[str, JobView], nodes: Mapping[str, NodeView], state: PodState
) -> _PlacedPod:
    """Return a pod that holds capacity, in its job. What it held of devices that are gone is skipped."""
    workload = row.workload
    job = jobs.get(workload.pk)
    if job is None:
        since = workload.placed_at or row.created_at
        job = jobs[workload.pk] = replace(view_pending(workload), saved_at=since.timestamp())
    node = nodes.get(row.node_id)
    known = {str(device) for device in node.devices} if node is not None else set()
    devices = tuple(str(index) for index, _ in row.gpus if str(index) in known)
    pending = next(pod for pod in job.pods if pod_name(pod.id) == row.pod) if workload.has_many_pods else job.pods[0]
    pod = replace(pending, state=state, node_id=None if node is None else node.id, devices=devices)
    return _PlacedPod(job if workload.has_many_pods else replace(job, pods=(pod,)), pod)


def view_queue(queue: Queue) -> QueueView:
    """Return a queue as the engine sees it. The project should be loaded.

    Without a weight of its own it gets GPUs beyond the quotas as its quota is.
    """
    own = queue.over_quota_weight
    return QueueView(
        id=queue.pk,
        name=queue.label,
        parent_id=queue.parent_id,
        rank=(queue.created_at,),
        quota=Quota(queue.gpu_quota_milli, queue.cpu_quota_millicores, queue.memory_quota_bytes),
        limit=Quota(queue.gpu_limit_milli, queue.cpu_limit_millicores, queue.memory_limit_bytes),
        weights=(max(queue.gpu_quota_milli or 0, ONE_GPU) / ONE_GPU if own is None else own, 1, 1),
    )


def pod_name(engine_id: str) -> str:
    """Return the name of a pod in its workload, by its id in the engine: an only pod has the id of its workload."""
    return engine_id.partition("/")[2] or FIRST_POD


@lru_cache(maxsize=10_000)
def request_of(  # noqa: PLR0917 (by position, as it is asked for each pod)
    gpu_milli: int,
    cpu_millicores: int,
    memory_bytes: int,
    gpu_memory_bytes: int = 0,
    resource_id: str = "",
    node_labels: tuple[tuple[str, str], ...] = (),
    missing_bytes: tuple[tuple[str, int], ...] = (),
) -> Request:
    """Return what a pod asks for as the engine sees it; without a resource, of any nodes. Equal ones are one object."""
    whole, rest = divmod(gpu_milli, ONE_GPU)
    return Request(
        gpus=whole,
        share_milli=rest,
        share_mib=-(-gpu_memory_bytes // _MIB),
        cpu_millicores=cpu_millicores,
        memory_bytes=memory_bytes,
        pool=resource_id,
        node_labels=frozenset(node_labels) if node_labels else None,
        # Amounts of one power of two are one shape: the engine tells no more apart.
        missing_bytes=tuple((place, (1 << size.bit_length()) - 1) for place, size in missing_bytes),
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
        labels=node.labels,
        is_ready=node.is_ready,
        is_drained=node.is_drained,
    )


def view_pending(workload: Workload) -> JobView:
    """Return a workload of which no pod is placed."""
    if workload.has_many_pods:
        pods, structure = _pods_of(workload), _structure_of(workload)
    else:
        (only,) = workload.pod_sets
        request = _request_of(only, workload)
        pods = (PodView(workload.pk, PodState.PENDING, request, pod_set=only["name"]),)
        structure = _ONE_POD
    return JobView(
        id=workload.pk,
        queue_id=workload.queue_id,
        pods=pods,
        structure=structure,
        priority=workload.priority,
        is_preemptible=workload.is_preemptible,
        rank=(workload.enqueued_at,),
        evictions=workload.evictions,
        name=str(workload),
    )


def _pods_of(workload: Workload) -> tuple[PodView, ...]:
    return tuple(
        PodView(
            f"{workload.pk}/{pods['name']}-{index}", PodState.PENDING, _request_of(pods, workload), pod_set=pods["name"]
        )
        for pods in workload.pod_sets
        for index in range(pods["count"])
    )


def _structure_of(workload: Workload) -> GroupView:
    return GroupView(tuple(PodSetView(pods["name"], pods["min_count"]) for pods in workload.pod_sets))


def _request_of(pods: Mapping[str, Any], workload: Workload) -> Request:
    missing_bytes = workload.missing_bytes
    return request_of(
        pods["gpu_milli"],
        pods["cpu_millicores"],
        pods["memory_bytes"],
        pods["gpu_memory_bytes"],
        workload.resource_id,
        tuple((label, value) for label, value in pods["node_labels"]) if pods["node_labels"] else (),
        tuple(sorted(missing_bytes.items())) if missing_bytes else (),
    )
