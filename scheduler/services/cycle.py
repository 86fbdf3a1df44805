"""One cycle: load a snapshot, let the engine decide, apply each decision by compare-and-set.

Only the holder of the lease applies, and every batch checks that nobody took the lease since: two controllers may
run, but a placement is never made on a view that another one has outdated. Workloads that leave while a cycle runs
are skipped, nodes that change take nothing until the next cycle.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
from scheduler.engine.resources import ONE_GPU
from scheduler.engine.session import Session
from scheduler.engine.snapshot import NEARLINE, JobView, Policy, QueueView
from scheduler.engine.states import WorkloadState
from scheduler.models import Gpu, Node, Placement, Workload
from scheduler.services import answers, packing, snapshots
from scheduler.services.snapshots import View

log = structlog.get_logger(__name__)

_LEASE = "scheduler.cycle"
_LEASE_S = 30.0
_PLACED_AT_ONCE = 100
_POLICY = NEARLINE
_SHAPE = ("queue_id", "resource_id", "gpu_milli", "cpu_millicores", "memory_bytes", "is_preemptible")
_ACTIONS = ("allocate",)
"""Nothing is taken from running work yet: no driver can be told to stop a job and start it again."""


@dataclass(frozen=True)
class CycleReport:
    """What a cycle did. `skipped` were decided on but had changed meanwhile, or the cycle had lost its lease."""

    placed: int = 0
    waiting: int = 0
    skipped: int = 0


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
    snapshot = snapshots.load(_demand()).snapshot
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


def _run(policy: Policy, holder: str) -> CycleReport:
    view = snapshots.load()
    decisions = run_cycle(view.snapshot, packing.with_prices(policy), _ACTIONS)
    starts = [decision for decision in decisions if isinstance(decision, Start)]
    explains = [decision for decision in decisions if isinstance(decision, Explain)]
    placed = 0
    for first in range(0, len(starts), _PLACED_AT_ONCE):
        placed += _apply(starts[first : first + _PLACED_AT_ONCE], view, holder)
    answers.store(explains, view)
    if starts:
        log.info("scheduler.cycle", placed=placed, skipped=len(starts) - placed, waiting=len(explains))
    return CycleReport(placed, len(explains), len(starts) - placed)


@transaction.atomic
def _apply(batch: Sequence[Start], view: View, holder: str) -> int:
    if not renew_lease(_LEASE, holder=holder, for_s=_LEASE_S):
        return 0
    nodes = Node.objects.select_for_update().filter(pk__in={start.node_id for start in batch}).order_by("pk")
    unchanged = {pk for pk, revision in nodes.values_list("pk", "revision") if view.revisions[pk] == revision}
    rows = Workload.objects.select_for_update().filter(pk__in=[start.job_id for start in batch])
    pending = set(rows.filter(state=WorkloadState.PENDING).order_by("pk").values_list("pk", flat=True))
    good = [start for start in batch if start.node_id in unchanged and start.job_id in pending]
    Placement.objects.bulk_create(
        Placement(workload_id=start.job_id, node_id=start.node_id, gpus=_gpus(view.jobs[start.job_id], start))
        for start in good
    )
    workload_ids = [start.job_id for start in good]
    Workload.objects.filter(pk__in=workload_ids).update(
        state=WorkloadState.PLACED, placed_at=clock.now(), reason="", reason_code="", answer=None
    )
    if good:
        send_on_commit(signals.workload_placed, workload_ids=workload_ids)
    return len(good)


def _gpus(job: JobView, start: Start) -> list[tuple[int, int]]:
    """Return each device's index with the thousandths of it that are taken."""
    request = job.tasks[0].request
    return [(int(device), request.share_milli or ONE_GPU) for device in start.devices]
