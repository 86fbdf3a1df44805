"""Reading the database as the engine sees it: who waits and what runs by id, and the rows of what is new or other."""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache, partial
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from django.db.models import BigIntegerField, CharField, DateTimeField, F, Model, QuerySet, Value

from core import clock, orm
from core.prepared import prepared
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
    WorkRules,
)
from scheduler.engine.states import WorkloadState
from scheduler.models import FIRST_POD, Node, Packing, Placement, Queue, Reservation, Workload
from scheduler.selectors.packing import find_packing
from scheduler.selectors.workloads import list_enqueued_here

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

_UNCHANGED: Mapping[str, QueueView] = MappingProxyType({})
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
    placement only when it is evicted or its job saves a checkpoint, and a node only with a new revision.
    """

    def __init__(self) -> None:
        self._nodes: dict[tuple[str, int], _Node] = {}
        self._waiting: dict[tuple[str, int, int], _WaitingJob] = {}
        self._running: dict[tuple[str, int, int], _PlacedPod] = {}
        self._packing: tuple[Packing, datetime] | None = None

    @property
    def packing(self) -> Packing | None:
        """The prices of capacity that were in use when the state was read."""
        return None if self._packing is None else self._packing[0]

    def read(
        self, waiting: Sequence[Workload] | None = None, *, changed: Mapping[str, QueueView] = _UNCHANGED
    ) -> Mapping[str, ClusterView]:
        """Return the present state of each pool. A project that is deleted meanwhile takes its workloads along.

        `waiting` replaces the pending workloads, `changed` queues by their ids.
        """
        now = clock.now()
        facts = _read_facts(with_pending=waiting is None)
        self._nodes = _update(self._nodes, {(pk, revision): pk for pk, revision in facts.nodes}, _read_nodes)
        self._packing = self._packing_now(facts.packing)
        queues = [(row.pool_id, changed.get(row.pk) or view_queue(row)) for row in _queues()]
        reservations = _Reservations(Reservation.objects.order_by("pk") if facts.has_reservations else ())
        answers: Mapping[str, StoredAnswer] = {}
        if waiting is None:
            present = {(pk, evictions, revision): pk for pk, evictions, revision, _ in facts.pending}
            answers = {pk: answer for pk, *_, answer in facts.pending}
            # What this thread's task has just enqueued, and nobody has changed since, need not be read.
            enqueued = {(row.pk, row.evictions, row.revision): row for row in list_enqueued_here().values()}
            new = {key: _waiting(row) for key, row in enqueued.items() if key in present}
            self._waiting = _update(new | self._waiting, present, _read_waiting)
            pending = self._with_waits(now)
        else:
            pending = [view_pending(workload) for workload in waiting]
        revisions = dict(self._nodes.keys())
        running = {
            (pk, revisions.get(node_id, 0), saved_at_s): pk
            for pk, node_id, saved_at_s, since in facts.placements
            if since is None
        }
        evicted = [pk for pk, *_, since in facts.placements if since is not None]
        nodes = {pk: node.view for (pk, _), node in self._nodes.items()}
        self._running = _update(self._running, running, partial(_read_running, nodes))
        ages = _ages_that_matter([queue for _, queue in queues])
        held = [
            _with_age(placed, ages[placed.job.queue_id], now) if placed.job.queue_id in ages else placed
            for placed in self._running.values()
        ]
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

    def _packing_now(self, learnt_at: datetime | None) -> tuple[Packing, datetime] | None:
        """Return the prices of capacity and when they were learnt; they are read when that is another moment."""
        if learnt_at is None or (self._packing is not None and self._packing[1] == learnt_at):
            return self._packing if learnt_at is not None else None
        row = find_packing()
        return None if row is None else (row, learnt_at)


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
    """A pod that holds capacity, in its job: of several pods all the others of `job` are pending there.

    `since` is when the job got its place, in seconds.
    """

    job: JobView
    pod: PodView
    since: float


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
            placed = replace(placed, pod=again)  # noqa: PLW2901 (it is pending beside the place that it leaves)
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


def _in_batches(read_rows: Callable[[Collection[str]], Iterable[M]], pks: Sequence[str]) -> list[M]:
    return [row for batch in orm.in_batches(pks) for row in read_rows(batch)]


@dataclass
class _Facts:
    """What there is at one moment, in the order of the keys.

    Nodes with their revisions; pending workloads with their evictions, revisions and stored answers; placements with
    their nodes, when their jobs saved last, and since when they are evicted; when the prices of capacity were learnt.
    """

    nodes: list[tuple[str, int]] = field(default_factory=list)
    pending: list[tuple[str, int, int, StoredAnswer]] = field(default_factory=list)
    placements: list[tuple[str, str, int, datetime | None]] = field(default_factory=list)
    packing: datetime | None = None
    has_reservations: bool = False


def _read_facts(*, with_pending: bool) -> _Facts:
    facts = _Facts()
    for kind, pk, first, second, text_1, text_2, text_3, at in sorted(_all_facts(with_pending), key=itemgetter(1)):
        match kind:
            case "node":
                facts.nodes.append((pk, first))
            case "pending":
                facts.pending.append((pk, first, second, (text_1, text_2, text_3)))
            case "placement":
                facts.placements.append((pk, text_1, first, at))
            case "packing":
                facts.packing = at
            case "reservation":
                facts.has_reservations = True
    return facts


_Fact = tuple[str, str, int, int, str, str, str | None, datetime | None]


@prepared
def _all_facts(with_pending: bool) -> QuerySet[Any, _Fact]:  # noqa: FBT001 (a prepared query takes no names)
    """Return all of it by one statement, which sees one moment: what is requeued meanwhile is pending or placed."""
    workloads = Workload.objects.filter(state=WorkloadState.PENDING)
    others = [
        _facts_of("node", Node.objects.all(), first=F("revision")),
        _facts_of("packing", Packing.objects.all(), at=F("learnt_at")),
        _facts_of("reservation", Reservation.objects.all()),
    ]
    if with_pending:
        counts = {"first": F("evictions"), "second": F("revision")}
        texts = {"text_1": F("reason_code"), "text_2": F("reason"), "text_3": F("answer_id")}
        others.append(_facts_of("pending", workloads, **counts, **texts))
    columns = {"first": F("saved_at_s"), "text_1": F("node_id"), "at": F("evicting_since")}
    placements = _facts_of("placement", Placement.objects.all(), **columns)
    return placements.union(*others, all=True)


def _facts_of(kind: str, rows: QuerySet[Any, Any], **columns: F) -> QuerySet[Any, _Fact]:
    text = Value("", output_field=CharField())
    number = Value(0, output_field=BigIntegerField())
    empty = {"first": number, "second": number, "text_1": text, "text_2": text, "text_3": text}
    at = Value(None, output_field=DateTimeField())
    named = {"kind": Value(kind, output_field=CharField()), **empty, "at": at, **columns}
    found: QuerySet[Any, _Fact] = rows.order_by().annotate(**named).values_list("kind", "pk", *list(named)[1:])
    return found


@prepared
def _queues() -> QuerySet[Queue]:
    return Queue.objects.select_related("project").order_by("pk")


@prepared
def _workloads(pks: Collection[str]) -> QuerySet[Workload]:
    return Workload.objects.filter(pk__in=pks).order_by("pk")


@prepared
def _placed(pks: Collection[str]) -> QuerySet[Placement]:
    return Placement.objects.filter(pk__in=pks).select_related("workload").order_by("pk")


def _read_nodes(pks: list[str]) -> dict[str, _Node]:
    nodes = Node.objects.prefetch_related("gpus").order_by("pk")
    rows = _in_batches(lambda batch: nodes.filter(pk__in=batch), pks)
    return {row.pk: _Node(row.pool_id, _view_node(row)) for row in rows}


def _read_waiting(pks: list[str]) -> dict[str, _WaitingJob]:
    return {row.pk: _waiting(row) for row in _in_batches(_workloads, pks)}


def _waiting(row: Workload) -> _WaitingJob:
    view = view_pending(row)
    return _WaitingJob(view, row.waits_since, sum(pod.request.gpus for pod in view.pods))


def _read_running(nodes: Mapping[str, NodeView], pks: list[str]) -> dict[str, _PlacedPod]:
    """Return the views of pods that run. The work of a job is safe up to its last checkpoint, or to its start."""
    rows = _in_batches(_placed, pks)
    jobs: dict[str, JobView] = {}
    return {row.pk: _view_placed(row, jobs, nodes, PodState.RUNNING) for row in rows}


def _read_terminating(pks: Sequence[str], nodes: Mapping[str, NodeView], now: datetime) -> list[tuple[str, _PlacedPod]]:
    rows = _in_batches(_placed, pks)
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
        saved_at = max(since.timestamp(), float(row.saved_at_s))
        job = jobs[workload.pk] = replace(view_pending(workload), saved_at=saved_at)
    node = nodes.get(row.node_id)
    known = {str(device) for device in node.devices} if node is not None else set()
    devices = tuple(str(index) for index, _ in row.gpus if str(index) in known)
    pending = next(pod for pod in job.pods if pod_name(pod.id) == row.pod) if workload.has_many_pods else job.pods[0]
    pod = replace(pending, state=state, node_id=None if node is None else node.id, devices=devices)
    since_s = (workload.placed_at or row.created_at).timestamp()
    return _PlacedPod(job if workload.has_many_pods else replace(job, pods=(pod,)), pod, since_s)


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
        reclaim_min_runtime_s=queue.reclaim_min_runtime_s,
        preempt_min_runtime_s=queue.preempt_min_runtime_s,
        training=_rules(queue.training_node_labels, queue.training_run_at_most_s),
        interactive=_rules(queue.interactive_node_labels, queue.interactive_run_at_most_s),
    )


def _rules(node_labels: Sequence[str], run_at_most_s: float | None) -> WorkRules:
    pairs = (label.partition("=") for label in node_labels)
    labels = frozenset((key, value) for key, _, value in pairs)
    return WorkRules(node_labels=labels or None, run_at_most_s=run_at_most_s)


def _ages_that_matter(queues: Sequence[QueueView]) -> Mapping[str, Sequence[float]]:
    """Return by queue the ages, in seconds, at which a running job of it begins to be treated otherwise."""
    by_id = {queue.id: queue for queue in queues}
    found = {}
    for queue in queues:
        ages: set[float | None] = set()
        above: QueueView | None = queue
        while above is not None:
            ages |= {above.reclaim_min_runtime_s, above.preempt_min_runtime_s}
            ages |= {above.training.run_at_most_s, above.interactive.run_at_most_s}
            above = by_id.get(above.parent_id) if above.parent_id is not None else None
        if known := sorted(age for age in ages if age is not None):
            found[queue.id] = known
    return found


def _with_age(placed: "_PlacedPod", ages: Sequence[float], now: datetime) -> "_PlacedPod":
    """Return what runs with its age, as the last one that matters: so a view changes no more often than it must."""
    age_s = now.timestamp() - placed.since
    return replace(placed, job=replace(placed.job, running_for_s=max((age for age in ages if age <= age_s), default=0)))


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
        max_pods=node.max_pods,
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
