"""One cycle: read what has changed, let the engine decide, apply each decision by compare-and-set.

Only the holder of the lease applies, and every batch checks that it still holds it: two controllers may run, but a
placement is never made on a view that another one has outdated. Workloads that end while a cycle runs are skipped,
nodes that change take nothing until the next cycle.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import structlog
from django.db import transaction
from django.db.models import Count, Sum

from core import clock, ids, isolation, leases
from core.metrics import CYCLE_SECONDS
from scheduler.engine.cycle import decide
from scheduler.engine.decisions import Decision, Explain, Start
from scheduler.engine.resources import ONE_GPU
from scheduler.engine.session import Session
from scheduler.engine.snapshot import NEARLINE, Policy, QueueView, Snapshot
from scheduler.engine.states import WorkloadState
from scheduler.models import Gpu, Node, Workload
from scheduler.workers import answers, apply, packing, undecided
from scheduler.workers.apply import Applied, Move
from scheduler.workers.session_cache import SessionCache
from scheduler.workers.snapshots import ClusterView, SnapshotReader

log = structlog.get_logger(__name__)

_LEASE = "scheduler.cycle"
_LEASE_S = 30.0
_MOVED_AT_ONCE = 100
APPLY = "scheduler.apply"
"""The kind of failures; items are workloads."""
_POLICY = NEARLINE
_sessions = SessionCache()
_SHAPE = ("queue_id", "resource_id", "gpu_milli", "cpu_millicores", "memory_bytes", "is_preemptible")


@dataclass(frozen=True)
class CycleReport(Applied):
    """What a cycle did. `skipped` workloads had changed meanwhile, or the cycle had lost its lease."""

    waiting: int = 0
    skipped: int = 0


def run_once(policy: Policy = _POLICY) -> CycleReport:
    """Place pending workloads, evict others where a queue is entitled to their capacity, and explain the other waits.

    Safe to run twice at once. A workload on which the engine fails is left out for a while, and the others go on.
    """
    if not Workload.objects.filter(state=WorkloadState.PENDING).exists():
        return CycleReport()
    holder = ids.new_id("cycle", now_ms=clock.now_ms())
    if not leases.take_named(_LEASE, holder=holder, for_s=_LEASE_S):
        return CycleReport()
    try:
        with CYCLE_SECONDS.time():
            return _run(policy, holder)
    finally:
        leases.release_named(_LEASE, holder=holder)


def fair_shares(changed: Mapping[str, QueueView] | None = None) -> Mapping[str, int]:
    """Return the fair share of each queue, in thousandths of GPUs, as a cycle would compute it now. Nothing changes.

    `changed` holds queues as they would be after a change that is tried.
    """
    view = SnapshotReader().read(_demand())
    queues = [(changed or {}).get(queue.id, queue) for queue in view.queues]
    session = Session(Snapshot(view.nodes, queues, list(view.jobs.values())), _POLICY)
    return {queue.view.id: int(queue.fair[0]) for queue in session.queues.values()}


def _demand() -> list[Workload]:
    """Return stand-ins for the pending workloads: of each shape in each queue at most as many as fill all nodes.

    No share grows beyond that, so ten thousand pending workloads cost no more here than a few.
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
    policy, failures = packing.with_prices(policy), isolation.find([undecided.DECIDE])
    with _sessions.read(policy, failures) as cycle_input:
        if not cycle_input.has_changes:
            return CycleReport(waiting=len(cycle_input.session.waiting))
        view = cycle_input.view
        try:
            decisions = decide(cycle_input.session)
        except Exception as error:  # noqa: BLE001 (`blame` records it, or raises it)
            failed = error
        else:
            isolation.forget(undecided.DECIDE, [row.item_id for row in failures if row.item_id in view.jobs])
            return _write(decisions, view, holder)
    _sessions.forget()
    undecided.blame(view, policy, decide, failed)
    return CycleReport(waiting=len(view.answers))


def _write(decisions: Sequence[Decision], view: ClusterView, holder: str) -> CycleReport:
    moves = [decision for decision in decisions if not isinstance(decision, Explain)]
    explains = [decision for decision in decisions if isinstance(decision, Explain)]
    applied = Applied()
    for first in range(0, len(moves), _MOVED_AT_ONCE):
        batch = moves[first : first + _MOVED_AT_ONCE]
        done = isolation.in_batch(APPLY, batch, lambda some: _apply(some, view, holder), key=lambda move: move.job_id)
        applied = sum(done, applied)
    answers.store(explains, view)
    skipped = sum(isinstance(move, Start) for move in moves) - applied.placed
    if moves:
        log.info("scheduler.cycle", **asdict(applied), skipped=skipped, waiting=len(explains))
    return CycleReport(**asdict(applied), waiting=len(explains), skipped=skipped)


@transaction.atomic
def _apply(batch: Sequence[Move], view: ClusterView, holder: str) -> Applied:
    return apply.apply_moves(batch, view) if leases.renew_named(_LEASE, holder=holder, for_s=_LEASE_S) else Applied()
