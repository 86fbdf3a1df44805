"""One cycle: load a snapshot, let the engine decide, apply each decision by compare-and-set.

Only the holder of the lease applies, and every batch checks that nobody took the lease since: two controllers may
run, but a placement is never made on a view that another one has outdated. Workloads that leave while a cycle runs
are skipped, nodes that change take nothing until the next cycle.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import structlog
from django.db import transaction
from django.db.models import Count, Sum

from core import clock, ids
from core.metrics import CYCLE_SECONDS
from core.models import give_back_lease, renew_lease, take_lease
from core.signals import send_on_commit
from scheduler import signals
from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import Explain, Start
from scheduler.engine.resources import ONE_GPU, Quota
from scheduler.engine.session import Session
from scheduler.engine.snapshot import (
    NEARLINE,
    GroupView,
    JobView,
    NodeView,
    PodSetView,
    Policy,
    QueueView,
    Request,
    Snapshot,
    TaskState,
    TaskView,
)
from scheduler.engine.states import WorkloadState
from scheduler.models import Gpu, Node, Placement, Queue, Workload

log = structlog.get_logger(__name__)

_LEASE = "scheduler.cycle"
_LEASE_S = 30.0
_PLACED_AT_ONCE = 100
_EXPLAINED_AT_ONCE = 500
_POLICY = NEARLINE
_SHAPE = ("queue_id", "resource_id", "gpu_milli", "cpu_millicores", "memory_bytes", "is_preemptible")
_ACTIONS = ("allocate",)
"""Nothing is taken from running work yet: no driver can be told to stop a job and start it again."""

_MIB = 2**20
_NOMINAL_MIB = 1000
"""The size of a device whose memory is not known: then a share is counted in thousandths."""

_ONE_TASK = GroupView((PodSetView("", 1),))


@dataclass(frozen=True)
class CycleReport:
    """What a cycle did. `skipped` were decided on but had changed meanwhile, or the cycle had lost its lease."""

    placed: int = 0
    waiting: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class _View:
    """A snapshot, with what is compared when its decisions are applied."""

    snapshot: Snapshot
    revisions: Mapping[str, int]
    reasons: Mapping[str, tuple[str, str]]
    requests: Mapping[str, Request]


def run_once(policy: Policy = _POLICY) -> CycleReport:
    """Give waiting workloads the room that is free, and tell the others why they wait. Safe to run twice at once."""
    if not Workload.objects.filter(state=WorkloadState.PENDING).exists():
        return CycleReport()
    holder = ids.new_id("cycle", now_ms=clock.now_ms())
    if not take_lease(_LEASE, holder=holder, for_s=_LEASE_S):
        return CycleReport()
    try:
        with CYCLE_SECONDS.time():
            return _run(policy, holder)
    finally:
        give_back_lease(_LEASE, holder=holder)


def fair_shares(changed: Mapping[str, QueueView] | None = None) -> Mapping[str, int]:
    """Return by queue the GPUs, in thousandths, that a cycle would count on for it now. Nothing happens.

    `changed` holds queues as they would be after a change that somebody thinks about.
    """
    snapshot = _load(_demand()).snapshot
    queues = [(changed or {}).get(queue.id, queue) for queue in snapshot.queues]
    session = Session(replace(snapshot, queues=queues), _POLICY)
    return {queue.view.id: int(queue.fair[0]) for queue in session.queues.values()}


def _demand() -> list[Workload]:
    """Return stand-ins for all that waits: of each shape in each queue at most as many as fill everything there is.

    No share grows beyond that, so ten thousand waiting workloads cost no more here than a few.
    """
    nodes = Node.objects.aggregate(cpu=Sum("cpu_millicores"), memory=Sum("memory_bytes"))
    total = (ONE_GPU * Gpu.objects.count(), nodes["cpu"] or 0, nodes["memory"] or 0)
    shapes = Workload.objects.filter(state=WorkloadState.PENDING).order_by().values(*_SHAPE).annotate(count=Count("pk"))
    found, now = [], clock.now()
    for shape in shapes:
        count = shape.pop("count")
        needs = (shape["gpu_milli"], shape["cpu_millicores"], shape["memory_bytes"])
        most = max((-(-whole // part) for whole, part in zip(total, needs, strict=True) if part), default=0)
        found += [Workload(**shape, enqueued_at=now) for _ in range(min(count, most))]
    return found


def view_queue(queue: Queue) -> QueueView:
    """Return a queue as the engine sees it. The project should be loaded."""
    return _queue(queue)


def _run(policy: Policy, holder: str) -> CycleReport:
    view = _load()
    decisions = run_cycle(view.snapshot, policy, _ACTIONS)
    starts = [decision for decision in decisions if isinstance(decision, Start)]
    explains = [decision for decision in decisions if isinstance(decision, Explain)]
    placed = 0
    for first in range(0, len(starts), _PLACED_AT_ONCE):
        placed += _apply(starts[first : first + _PLACED_AT_ONCE], view, holder)
    _store_reasons(explains, view)
    if starts:
        log.info("scheduler.cycle", placed=placed, skipped=len(starts) - placed, waiting=len(explains))
    return CycleReport(placed, len(explains), len(starts) - placed)


@transaction.atomic
def _apply(batch: Sequence[Start], view: _View, holder: str) -> int:
    if not renew_lease(_LEASE, holder=holder, for_s=_LEASE_S):
        return 0
    nodes = Node.objects.select_for_update().filter(pk__in={start.node_id for start in batch}).order_by("pk")
    unchanged = {pk for pk, revision in nodes.values_list("pk", "revision") if view.revisions[pk] == revision}
    rows = Workload.objects.select_for_update().filter(pk__in=[start.job_id for start in batch])
    pending = set(rows.filter(state=WorkloadState.PENDING).order_by("pk").values_list("pk", flat=True))
    good = [start for start in batch if start.node_id in unchanged and start.job_id in pending]
    Placement.objects.bulk_create(
        Placement(workload_id=start.job_id, node_id=start.node_id, gpus=_gpus(view.requests[start.job_id], start))
        for start in good
    )
    workload_ids = [start.job_id for start in good]
    Workload.objects.filter(pk__in=workload_ids).update(
        state=WorkloadState.PLACED, placed_at=clock.now(), reason="", reason_code=""
    )
    if good:
        send_on_commit(signals.workload_placed, workload_ids=workload_ids)
    return len(good)


def _store_reasons(explains: Sequence[Explain], view: _View) -> None:
    changed: dict[tuple[str, str], list[str]] = defaultdict(list)
    for explain in explains:
        reason = (str(explain.code), explain.text)
        if view.reasons[explain.job_id] != reason:
            changed[reason].append(explain.job_id)
    for (code, text), workload_ids in changed.items():
        for start in range(0, len(workload_ids), _EXPLAINED_AT_ONCE):
            batch = workload_ids[start : start + _EXPLAINED_AT_ONCE]
            waiting = Workload.objects.filter(pk__in=batch, state=WorkloadState.PENDING)
            waiting.update(reason_code=code, reason=text)


def _gpus(request: Request, start: Start) -> list[tuple[int, int]]:
    """Return each device's index with the thousandths of it that are taken."""
    return [(int(device), request.share_milli or ONE_GPU) for device in start.devices]


def _load(waiting: Sequence[Workload] | None = None) -> _View:
    """Read everything in a fixed number of queries. A project that is deleted meanwhile takes its workloads along.

    `waiting` stands in for the workloads that wait.
    """
    nodes = Node.objects.order_by("pk").prefetch_related("gpus")
    revisions = {node.pk: node.revision for node in nodes}
    views = {node.pk: _node(node) for node in nodes}
    if waiting is None:
        waiting = list(Workload.objects.filter(state=WorkloadState.PENDING).order_by("pk"))
    placements = Placement.objects.select_related("workload").order_by("pk")
    queues = {queue.pk: _queue(queue) for queue in Queue.objects.select_related("project").order_by("pk")}
    now = clock.now()
    jobs = [_waiting(workload, now) for workload in waiting if workload.queue_id in queues]
    jobs += [_placed(placement, views) for placement in placements if placement.workload.queue_id in queues]
    return _View(
        Snapshot(nodes=list(views.values()), queues=list(queues.values()), jobs=jobs),
        revisions,
        {row.pk: (row.reason_code, row.reason) for row in waiting},
        {job.id: job.tasks[0].request for job in jobs},
    )


def _node(node: Node) -> NodeView:
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


def _queue(queue: Queue) -> QueueView:
    """Return the view of a queue. Without a weight of its own it gets GPUs beyond the quotas as its quota is."""
    own = queue.over_quota_weight
    return QueueView(
        id=queue.pk,
        name=queue.project.name,
        rank=(queue.created_at,),
        quota=Quota(queue.gpu_quota_milli, queue.cpu_quota_millicores, queue.memory_quota_bytes),
        weights=(max(queue.gpu_quota_milli or 0, ONE_GPU) / ONE_GPU if own is None else own, 1, 1),
    )


def _waiting(workload: Workload, now: datetime) -> JobView:
    job = _job(workload, TaskView(workload.pk, TaskState.PENDING, _request(workload)))
    return replace(job, waited_s=(now - workload.enqueued_at).total_seconds())


def _placed(placement: Placement, nodes: Mapping[str, NodeView]) -> JobView:
    """Return the view of work that holds room. What it held of devices that are gone is passed over."""
    workload, node = placement.workload, nodes.get(placement.node_id)
    known = {str(device) for device in node.devices} if node is not None else set()
    devices = tuple(str(index) for index, _ in placement.gpus if str(index) in known)
    node_id = None if node is None else node.id
    return _job(
        workload, TaskView(workload.pk, TaskState.RUNNING, _request(workload), node_id=node_id, devices=devices)
    )


def _job(workload: Workload, task: TaskView) -> JobView:
    return JobView(
        id=workload.pk,
        queue_id=workload.queue_id,
        tasks=(task,),
        structure=_ONE_TASK,
        priority=workload.priority,
        is_preemptible=workload.is_preemptible,
        rank=(workload.enqueued_at,),
    )


def _request(workload: Workload) -> Request:
    whole, rest = divmod(workload.gpu_milli, ONE_GPU)
    return Request(
        gpus=whole,
        share_milli=rest,
        cpu_millicores=workload.cpu_millicores,
        memory_bytes=workload.memory_bytes,
        pool=workload.resource_id,
    )
