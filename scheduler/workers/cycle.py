"""One cycle: read what has changed, let the engine decide, apply each decision by compare-and-set.

Only the holder of the lease applies, and every batch checks that it still holds it, or takes it then if nobody had it
since the view was read: two controllers may run, but a placement is never made on a view that another one has outdated.
Workloads that end while a cycle runs are skipped, nodes that change take nothing until the next cycle.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from threading import Lock

import structlog
from django.db import transaction
from django.db.models import Count, Q, QuerySet, Sum
from prometheus_client import Histogram

from core import clock, ids, isolation, leases
from core.models import Failure
from core.prepared import prepared
from core.units import ONE_GPU
from scheduler.engine.cycle import decide_moves
from scheduler.engine.decisions import Answer, Move, Start
from scheduler.engine.explain import list_answers
from scheduler.engine.receipts import Receipt, write_receipts
from scheduler.engine.session import Session
from scheduler.engine.snapshot import NEARLINE, JobView, Policy, Snapshot
from scheduler.engine.states import WorkloadState
from scheduler.models import Gpu, Node, Placement, Pool, Queue, Workload
from scheduler.selectors import workloads
from scheduler.selectors.changes import CYCLE_LEASE
from scheduler.selectors.snapshots import ClusterView, SnapshotReader, apply_prices
from scheduler.workers import answers, apply, undecided
from scheduler.workers.apply import Applied, CycleReceipts

log = structlog.get_logger(__name__)

CYCLE_SECONDS = Histogram("nearline_scheduler_cycle_seconds", "Time that one scheduling cycle took")

_MAX_AGE = timedelta(minutes=10)
"""Then everything is read again, so that no mistake in a cached session lasts."""

_LEASE_S = 30.0
_MOVED_AT_ONCE = 100
APPLY = "scheduler.apply"
"""The kind of failures; items are workloads."""
_POLICY = NEARLINE
_SHAPE = (
    *("queue_id", "resource_id", "pod_sets", "has_many_pods", "is_preemptible"),
    *("gpu_milli", "cpu_millicores", "memory_bytes"),
)


@dataclass(frozen=True)
class CycleReport(Applied):
    """What a cycle did. `skipped` workloads had changed meanwhile, or the cycle had lost its lease."""

    waiting: int = 0
    skipped: int = 0


def find_waiting() -> list[QuerySet[Workload]]:
    """Return the workloads that wait, and those of which some pods do."""
    is_incomplete = Q(has_many_pods=True, state=WorkloadState.PLACED)
    return [Workload.objects.filter(Q(state=WorkloadState.PENDING) | is_incomplete)]


def find_limited() -> list[QuerySet[Placement]]:
    """Return what runs in pools where work may run for so long only."""
    has_limit = Q(training_run_at_most_s__isnull=False) | Q(interactive_run_at_most_s__isnull=False)
    pools = Queue.objects.filter(has_limit).values("pool")
    return [Placement.objects.filter(workload__queue__pool__in=pools, evicting_since=None)]


@prepared
def _first_waiting() -> QuerySet[Workload, str]:
    (waiting,) = find_waiting()
    return waiting.values_list("pk", flat=True)[:1]


def run_once(policy: Policy = _POLICY, *, only_if_waiting: bool = True) -> CycleReport:
    """Place pending workloads, evict others where a queue is entitled to their capacity, and explain the other waits.

    Overdue work ends in any cycle, so one may be worth running although nothing waits.
    Safe to run twice at once. A workload on which the engine fails is left out for a while, and the others go on.
    """
    lease = _take_lease(only_if_waiting=only_if_waiting)
    if lease is None:
        return CycleReport()
    try:
        with CYCLE_SECONDS.time():
            return _run(policy, lease)
    finally:
        if lease.is_taken and not lease.has_ended:
            leases.release_named(CYCLE_LEASE, holder=lease.holder)


@dataclass
class _Lease:
    """The lease of a cycle. Where it is not taken before, it is with the first change; it may end with the last one."""

    holder: str
    is_taken: bool
    has_ended: bool = False

    def hold(self, *, for_s: float) -> bool:
        """Hold the lease for the caller's transaction and so long after it; False where another cycle had it since."""
        if self.is_taken:
            return leases.renew_named(CYCLE_LEASE, holder=self.holder, for_s=for_s)
        return leases.take_named_since(CYCLE_LEASE, _sessions.lease_token, holder=self.holder, for_s=for_s)


def _take_lease(*, only_if_waiting: bool) -> _Lease | None:
    """Take the lease, where asked for only if anything waits; None where another cycle runs too.

    For what this thread has just enqueued it is not taken yet: that is placed by one change.
    """
    holder = ids.new_id("cycle", now_ms=clock.now_ms())
    if only_if_waiting and workloads.list_enqueued_here():
        return _Lease(holder, is_taken=False)
    if only_if_waiting and not _first_waiting():
        return None
    is_taken = leases.take_named(CYCLE_LEASE, holder=holder, for_s=_LEASE_S)
    return _Lease(holder, is_taken) if is_taken else None


def fair_shares(pool_id: str) -> Mapping[str, int]:
    """Return the fair share of each queue of a pool, in thousandths of GPUs, as a cycle would compute it now."""
    view = SnapshotReader(pool_id).read(_demand(pool_id)).get(pool_id)
    if view is None:
        return {}
    session = _session_of(view, view.apply_rules(_POLICY, clock.now()))
    return {queue.view.id: int(queue.fair[0]) for queue in session.queues.values()}


def _demand(pool_id: str) -> list[Workload]:
    """Return stand-ins for what is pending in a pool: of each shape in each queue at most as many as fill all nodes.

    No share grows beyond that, so ten thousand pending workloads cost no more here than a few.
    """
    nodes = Node.objects.aggregate(cpu=Sum("cpu_millicores"), memory=Sum("memory_bytes"))
    total = (ONE_GPU * Gpu.objects.count(), nodes["cpu"] or 0, nodes["memory"] or 0)
    pending = Workload.objects.filter(state=WorkloadState.PENDING, queue__pool=pool_id)
    shapes = pending.order_by().values(*_SHAPE).annotate(count=Count("pk"))
    demand, now = [], clock.now()
    for shape in shapes:
        count = shape.pop("count")
        needs = (shape["gpu_milli"], shape["cpu_millicores"], shape["memory_bytes"])
        most = max((-(-whole // part) for whole, part in zip(total, needs, strict=True) if part), default=0)
        demand += [Workload(**shape, enqueued_at=now) for _ in range(min(count, most))]
    return demand


def _run(policy: Policy, lease: _Lease) -> CycleReport:
    failures = isolation.find([undecided.DECIDE, undecided.DECIDE_POOL])
    failed: list[undecided.FailedPool] = []
    with _sessions.read(policy, failures, failed) as inputs:
        waiting = sum(len(each.session.waiting) for each in inputs.values())
        # A pool in which deciding fails has no session afterwards: nobody knows in which state it is.
        changed = {pool_id: inputs.pop(pool_id) for pool_id, each in [*inputs.items()] if each.has_changes}
        unchanged = [
            _Decided(each.view, each.session.policy, (), each.answers, CycleReceipts(pool_id, {}))
            for pool_id, each in inputs.items()
        ]
        decided: list[_Decided] = []
        for pool_id, each in changed.items():
            view, session = each.view, each.session
            with undecided.isolated(failed, pool_id, view, session.policy, _decide):
                moves, why, by_victim = _decide(session)
                if session.policy.sharing.consolidate_every_s and session.has_consolidated:
                    Pool.objects.filter(pk=pool_id).update(consolidated_at=clock.now())
                undecided.forget(failures, pool_id, view)
                decided.append(_Decided(view, session.policy, moves, why, CycleReceipts(pool_id, by_victim)))
                inputs[pool_id] = replace(each, answers=why)
        is_complete = _sessions.is_complete and len(decided) == len(changed)
        report = CycleReport(waiting=waiting)
        if decided:
            report = _write([*decided, *unchanged], lease, is_complete=is_complete)
    # Last, as it takes a cycle for each doubling of the workloads that wait there.
    undecided.blame(failed)
    return report


@dataclass(frozen=True)
class _Decided:
    """What was decided in one pool."""

    view: ClusterView
    policy: Policy
    moves: Sequence[Move]
    answers: Sequence[Answer]
    receipts: CycleReceipts


def _decide(session: Session) -> tuple[Sequence[Move], Sequence[Answer], Mapping[str, Receipt]]:
    moves = decide_moves(session)
    return moves, list_answers(session), write_receipts(session, moves)


def _write(decided: Sequence[_Decided], lease: _Lease, *, is_complete: bool) -> CycleReport:
    """Apply what was decided and store why others wait. `is_complete`: it is of all pools."""
    applied = Applied()
    starts: set[str] = set()
    batches: list[tuple[_Decided, Sequence[Sequence[Move]]]] = []
    for part in decided:
        moves_of: dict[str, list[Move]] = {}
        for move in part.moves:
            moves_of.setdefault(move.job_id, []).append(move)
        starts |= {job_id for job_id, moves in moves_of.items() if any(isinstance(move, Start) for move in moves)}
        batches += [(part, batch) for batch in _in_batches(list(moves_of.values()))]
    waiting = sum(len(answer.job_ids) for part in decided for answer in part.answers)
    has_answers = bool(waiting) or any(key for part in decided for key in part.view.answers.values())
    if has_answers and not lease.is_taken:
        lease.is_taken = lease.hold(for_s=_LEASE_S)
    for number, (part, batch) in enumerate(batches, start=1):
        is_last = number == len(batches) and not has_answers
        work = partial(_apply, part=part, lease=lease, is_last=is_last)
        applied = sum(isolation.in_batch(APPLY, batch, work, key=_job_id), applied)
    if has_answers and lease.is_taken:
        by_pool = {part.receipts.pool_id: (part.view, part.answers) for part in decided}
        answers.store(by_pool, is_complete=is_complete)
    for part in decided if applied.evicted else ():
        if part.receipts.by_victim:
            apply.store_dump(part.receipts, part.view, part.policy, part.moves)
    skipped = len(starts) - applied.placed
    report = CycleReport(**vars(applied), waiting=waiting, skipped=skipped)
    if report != CycleReport(waiting=waiting):
        # That work was placed and nothing else happened is no news: each job tells it.
        (log.debug if report == CycleReport(placed=applied.placed) else log.info)("scheduler.cycle", **vars(report))
    return report


def _in_batches(jobs: Sequence[Sequence[Move]]) -> Iterator[Sequence[Sequence[Move]]]:
    """Yield the moves of jobs in batches: those of one job together."""
    batch: list[Sequence[Move]] = []
    size = 0
    for moves in jobs:
        batch.append(moves)
        size += len(moves)
        if size >= _MOVED_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _job_id(moves: Sequence[Move]) -> str:
    return moves[0].job_id


def _apply(batch: Sequence[Sequence[Move]], part: _Decided, lease: _Lease, *, is_last: bool) -> Applied:
    """Apply a batch while the lease is held; with the last one it ends."""
    try:
        with transaction.atomic():
            if not lease.hold(for_s=0 if is_last else _LEASE_S):
                return Applied()
            applied = apply.apply_moves(batch, part.view, part.receipts)
    except apply.Outdated:
        return Applied()
    lease.is_taken, lease.has_ended = True, is_last
    return applied


@dataclass(frozen=True)
class CycleInput:
    """What a cycle decides on in one pool. Without `has_changes` it ends as the last cycle, which moved nothing.

    `answers` are those of the last cycle.
    """

    session: Session
    view: ClusterView
    has_changes: bool
    answers: Sequence[Answer] = ()


@dataclass(frozen=True)
class _Cached:
    reader: SnapshotReader
    inputs: dict[str, CycleInput]
    since: datetime


class SessionCache:
    """The sessions of this process, one for each pool, cached from cycle to cycle: only what changed is applied.

    A cycle that is cut short leaves none behind.
    """

    def __init__(self) -> None:
        self._cached: _Cached | None = None
        self._lock = Lock()
        self.lease_token: str | None = None
        """That of the reader, of the cycle that reads now (`SnapshotReader.lease_token`)."""

        self.is_complete = True
        """Whether that cycle has the input of all pools."""

    @contextmanager
    def read(
        self, policy: Policy, failures: Sequence[Failure] = (), failed: list[undecided.FailedPool] | None = None
    ) -> Iterator[dict[str, CycleInput]]:
        """Return the input of a cycle that runs now, by pool; a second caller waits for the first.

        The caller puts in the answers of the pools in which it decides. Workloads on which the engine failed lately are
        left out, and so are pools. Pools on which it fails now are appended to `failed`.
        """
        with self._lock:
            cached, self._cached = self._cached, None
            now = clock.now()
            if cached is None or not timedelta(0) <= now - cached.since < _MAX_AGE:
                cached = _Cached(SnapshotReader(), {}, now)
            views = cached.reader.read()
            self.lease_token = cached.reader.lease_token
            policy = apply_prices(policy, cached.reader.packing)
            inputs: dict[str, CycleInput] = {}
            failed = [] if failed is None else failed
            delayed_ids = undecided.find_delayed(failures)
            for pool_id in [pool_id for pool_id in views if pool_id not in delayed_ids]:
                view, rules = undecided.leave_out(views[pool_id], failures), views[pool_id].apply_rules(policy, now)
                with undecided.isolated(failed, pool_id, view, rules, lambda session: session):
                    inputs[pool_id] = _read(cached.inputs.get(pool_id), view, rules)
            self.is_complete = len(inputs) == len(views)
            yield inputs
            self._cached = _Cached(cached.reader, inputs, cached.since)


def _read(cached: CycleInput | None, view: ClusterView, policy: Policy) -> CycleInput:
    return _rebuild(view, policy) if cached is None else _update(cached, view, policy)


def _rebuild(view: ClusterView, policy: Policy) -> CycleInput:
    return CycleInput(_session_of(view, policy), view, has_changes=True)


def _session_of(view: ClusterView, policy: Policy) -> Session:
    return Session(Snapshot(view.nodes, view.queues, list(view.jobs.values())), policy)


def _update(cached: CycleInput, view: ClusterView, policy: Policy) -> CycleInput:
    before, session = cached.view, cached.session
    has_turn = policy.consolidates and not session.policy.consolidates and not session.has_looked_for_moves
    if session.policy.consolidates != policy.consolidates:
        session.policy = replace(session.policy, consolidates=policy.consolidates)
    if (before.nodes, before.queues, session.policy) != (view.nodes, view.queues, policy):
        return _rebuild(view, policy)
    has_moved = bool(session.moved_since(0))
    ended_ids: Collection[str] = ()
    changed_jobs: list[JobView] = []
    if view is not before:
        known, present = before.jobs, view.jobs
        # A view before in which jobs are left out is not the one to which the reader compares.
        touched_ids = view.touched_ids if before.touched_ids is not None else None
        ended_ids = [pk for pk in (known if touched_ids is None else touched_ids) if pk in known and pk not in present]
        changed_jobs = [
            present[pk]
            for pk in (present if touched_ids is None else touched_ids)
            if pk in present and (old := known.get(pk)) is not present[pk] and old != present[pk]
        ]
    has_changes = bool(has_moved or has_turn or ended_ids or changed_jobs)
    if has_changes:
        session.change(changed_jobs, ended_ids)
    return CycleInput(session, view, has_changes, cached.answers)


_sessions = SessionCache()
