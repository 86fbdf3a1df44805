"""Writes the decisions of a cycle by compare-and-set: what has changed since is skipped, and decided again.

With evictions it stores their receipts, and what the cycle decided on; both are collected in time.
"""

import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeGuard

import structlog
from django.db.models import Exists, QuerySet
from prometheus_client import Counter

from core import clock, ids, isolation, orm
from core.prepared import insert, prepared
from core.tasks import send_on_commit
from core.units import ONE_GPU
from scheduler import signals
from scheduler.engine import dumps
from scheduler.engine.decisions import Decision, Reserve, Start, Stop, Withdraw
from scheduler.engine.mig import read_slice
from scheduler.engine.receipts import Held, Receipt, list_job_ids
from scheduler.engine.snapshot import JobView, NodeView, PodState, Policy, Snapshot
from scheduler.engine.states import WorkloadState
from scheduler.models import CycleDump, Eviction, Node, Placement, Reservation, Workload
from scheduler.selectors.snapshots import ClusterView, pod_name
from scheduler.selectors.workloads import ClaimedPlacement
from scheduler.services import workloads

log = structlog.get_logger(__name__)

EVICTIONS = Counter("nearline_scheduler_evictions_total", "Workloads evicted to free their resources", ["reason"])

KEEP_RECEIPTS = timedelta(days=180)
KEEP_DUMPS = timedelta(days=14)
MOST_DUMPS = 500
MOST_DUMPED = 5000
"""A cycle that decides on more jobs is not dumped: the next cycles would have to wait for it."""

DUMP = "scheduler.dump_cycle"
"""The kind of failures; items are cycles."""

_LOCKED_FIELDS = ("state", "queue_id", "has_many_pods", "evictions", "pod_sets")

Move = Start | Reserve | Withdraw | Stop


@dataclass(frozen=True)
class Applied:
    """How many workloads were placed, got a reservation, and were evicted."""

    placed: int = 0
    reserved: int = 0
    evicted: int = 0

    def __add__(self, other: "Applied") -> "Applied":
        return Applied(self.placed + other.placed, self.reserved + other.reserved, self.evicted + other.evicted)


@dataclass(frozen=True)
class CycleReceipts:
    """The receipts of a cycle in one pool, by the victim's id. `cycle_id` is that of its dump, where one is stored."""

    pool_id: str
    by_victim: Mapping[str, Receipt]
    cycle_id: str = field(default_factory=lambda: ids.new_id(CycleDump.id_prefix, now_ms=clock.now_ms()))


class Outdated(Exception):
    """What a decision was made on has changed. What its transaction wrote is rolled back."""


def apply_moves(batch: Sequence[Sequence[Move]], view: ClusterView, receipts: CycleReceipts) -> Applied:
    """Apply the moves of some jobs, of each job all of its starts and reservations or none; record their evictions.

    Inside the caller's transaction. No job relies on another: a reservation that no eviction serves is withdrawn later.
    Raises Outdated.
    """
    if (start := _find_only_start(batch, view)) is not None:
        return _place_alone(start, view)
    moves = [move for moves in batch for move in moves]
    nodes = {node.pk: node for node in _lock_nodes({move.node_id for move in moves if _is_place(move)})}
    unchanged = {pk for pk, node in nodes.items() if view.revisions[pk] == node.revision}
    rows = {row.pk: row for row in _locked_workloads({move.job_id for move in moves})}
    stops = [(rows[move.job_id], move) for move in moves if isinstance(move, Stop) and move.job_id in rows]
    evicted = _evict(stops, receipts)
    _withdraw([move for move in moves if isinstance(move, Withdraw)])
    # What follows its nodes into another pool has another queue; its other nodes may be as they were.
    present = {pk for pk, row in rows.items() if row.queue_id == view.jobs[pk].queue_id}
    places = [
        (rows[move.job_id], move)
        for moves in batch
        if moves[0].job_id in present and all(move.node_id in unchanged for move in moves if _is_place(move))
        for move in moves
        if _is_place(move)
    ]
    reserved = _reserve([(row, move) for row, move in places if isinstance(move, Reserve)], nodes)
    placed = _place([(row, move) for row, move in places if isinstance(move, Start)], view)
    return Applied(placed, reserved, evicted)


def _find_only_start(batch: Sequence[Sequence[Move]], view: ClusterView) -> Start | None:
    """Return the only move, where it starts a workload of one pod that nothing is reserved for."""
    if len(batch) != 1 or len(batch[0]) != 1 or not isinstance(batch[0][0], Start):
        return None
    pods = view.jobs[batch[0][0].job_id].pods
    request = pods[0].request
    is_plain = len(pods) == 1 and pods[0].state is PodState.PENDING and not (request.share_mib or request.mig)
    return batch[0][0] if is_plain else None


def _place_alone(start: Start, view: ClusterView) -> Applied:
    """Place a workload of one pod, and have it claimed in the same transaction where somebody does.

    Its rows are compared and changed in one statement, which comes after the claim: whoever holds a job and its
    workload holds the job first.
    """
    node = next(node for node in view.nodes if node.id == start.node_id)
    placement = _placement(start, view.jobs[start.job_id], node)
    gpus, slices = placement.gpus, placement.slices
    offer = ClaimedPlacement(placement.workload_id, placement.pod, node.name, gpus, slices)
    answers = signals.workload_placing.send(sender=None, placement=offer)
    placement.is_claimed = any(is_claimed for _, is_claimed in answers)
    queue_id = view.jobs[start.job_id].queue_id
    if not _placeable.update(_placed_now(), start.job_id, queue_id, start.node_id, view.revisions[start.node_id]):
        raise Outdated
    insert([placement])
    send_on_commit(signals.workload_placed, workload_ids=[start.job_id])
    return Applied(placed=1)


@prepared
def _placeable(workload_id: str, queue_id: str, node_id: str, revision: int) -> QuerySet[Workload]:
    # Locked, so that nobody takes it into another pool without this workload.
    is_unchanged = Exists(Node.objects.select_for_update().filter(pk=node_id, revision=revision))
    return Workload.objects.filter(is_unchanged, pk=workload_id, queue=queue_id, state=WorkloadState.PENDING)


def _placed_now() -> Mapping[str, object]:
    placed = {"state": WorkloadState.PLACED, "placed_at": clock.now()}
    return {**placed, "reason": "", "reason_code": "", "answer": None}


def _is_place(move: Move) -> TypeGuard[Start | Reserve]:
    return isinstance(move, Start | Reserve)


def _lock_nodes(node_ids: set[str]) -> list[Node]:
    if not node_ids:
        return []
    return _locked_nodes(node_ids)


@prepared
def _locked_nodes(node_ids: Collection[str]) -> QuerySet[Node]:
    return Node.objects.select_for_update().filter(pk__in=node_ids).only("name", "revision").order_by("pk")


@prepared
def _locked_workloads(workload_ids: Collection[str]) -> QuerySet[Workload]:
    return Workload.objects.select_for_update().filter(pk__in=workload_ids).only(*_LOCKED_FIELDS).order_by("pk")


@prepared
def _pending(workload_ids: Collection[str]) -> QuerySet[Workload]:
    return Workload.objects.filter(pk__in=workload_ids, state=WorkloadState.PENDING)


def _evict(stops: Sequence[tuple[Workload, Stop]], receipts: CycleReceipts) -> int:
    """Evict pods. They hold their capacity until they have stopped; a workload that cannot go on is evicted whole."""
    stops = [(row, stop) for row, stop in stops if row.state == WorkloadState.PLACED]
    if not stops:
        return 0
    rows = {row.pk: row for row, _ in stops}
    lost = {(row.pk, pod_name(stop.pod_id)) for row, stop in stops}
    several = {pk for pk, row in rows.items() if row.has_many_pods}
    held = Placement.objects.filter(workload__in=several, evicting_since=None).values_list("workload_id", "pod")
    left = [place for place in (held if several else ()) if place not in lost]
    partly = {pk for pk in several if _goes_on(rows[pk], [pod for owner, pod in left if owner == pk])}
    for row, stop in stops:
        if row.pk not in partly:
            row.state = WorkloadState.TERMINATING
            row.reason, row.reason_code = stop.text, str(stop.code)
    for row in rows.values():
        row.evictions += row.pk not in partly
    Workload.objects.bulk_update(rows.values(), ["state", "reason", "reason_code", "evictions"])
    now = clock.now()
    Placement.objects.filter(workload__in=rows.keys() - partly, evicting_since=None).update(evicting_since=now)
    for workload_id in sorted(partly):
        pods = [pod for owner, pod in lost if owner == workload_id]
        Placement.objects.filter(workload=workload_id, pod__in=pods).update(evicting_since=now)
    _record_receipts(list(rows), receipts, at=now)
    send_on_commit(signals.workload_evicted, workload_ids=list(rows))
    for row, stop in stops:
        EVICTIONS.labels(stop.code).inc()
        log.info("scheduler.evicted", workload=row.pk, reason=str(stop.code), for_workload=stop.for_job)
    return len(rows)


def _goes_on(row: Workload, pods: Sequence[str]) -> bool:
    """Whether a workload runs on with these pods: fewer of a set than it needs are worth nothing.

    The engine may move some pods of a gang and leave the others where they are.
    """
    names = [pod.rpartition("-")[0] for pod in pods]
    return bool(pods) and all(names.count(each["name"]) >= each["min_count"] for each in row.pod_sets)


def _withdraw(withdrawals: Sequence[Withdraw]) -> None:
    if not withdrawals:
        return
    pods = {(move.job_id, pod_name(move.pod_id)) for move in withdrawals}
    rows = Reservation.objects.filter(workload__in={workload_id for workload_id, _ in pods})
    Reservation.objects.filter(pk__in=[row.pk for row in rows if (row.workload_id, row.pod) in pods]).delete()


def _reserve(reserves: Sequence[tuple[Workload, Reserve]], nodes: Mapping[str, Node]) -> int:
    """Reserve capacity for pods that are pending, or that move."""
    reservations = [
        Reservation(workload=row, pod=pod_name(reserve.pod_id), node=nodes[reserve.node_id], devices=reserve.devices)
        for row, reserve in reserves
        if row.state != WorkloadState.RELEASED
    ]
    if reservations:
        Reservation.objects.bulk_create(
            reservations,
            update_conflicts=True,
            unique_fields=["workload", "pod"],
            update_fields=["node", "devices"],
        )
    pending = {row.workload_id: row for row in reservations if row.workload.state == WorkloadState.PENDING}
    for reservation in pending.values():
        row = reservation.workload
        row.reason, row.reason_code, row.answer = reservation.reason, reservation.reason_code, None
    if pending:
        waiting = [reservation.workload for reservation in pending.values()]
        Workload.objects.bulk_update(waiting, ["reason", "reason_code", "answer"])
    return len({row.workload_id for row in reservations})


def _place(starts: Sequence[tuple[Workload, Start]], view: ClusterView) -> int:
    starts = [(row, start) for row, start in starts if row.state in _STARTABLE]
    rows = {row.pk: row for row, _ in starts}
    if rows:
        several = {pk for pk, row in rows.items() if row.has_many_pods}
        # Only cycles reserve, so the view knows for whom.
        reserved = {pk for pk in rows if any(pod.state is PodState.RESERVED for pod in view.jobs[pk].pods)}
        if served := reserved - several:
            Reservation.objects.filter(workload__in=served).delete()
        _withdraw([Withdraw(row.pk, start.pod_id) for row, start in starts if row.pk in several])
        nodes = {node.id: node for node in view.nodes}
        placements = [_placement(start, view.jobs[row.pk], nodes[start.node_id]) for row, start in starts]
        insert(placements)
        workloads.count_held(list(rows.values()))
        _pending.update(_placed_now(), rows)
        send_on_commit(signals.workload_placed, workload_ids=list(rows))
        if several:
            send_on_commit(signals.gang_placed, workload_ids=sorted(several))
    return len(rows)


_STARTABLE = frozenset({WorkloadState.PENDING, WorkloadState.PLACED})


def _placement(start: Start, job: JobView, node: NodeView) -> Placement:
    """Return the placement of a pod: of each device its index and the thousandths of it that are held, and slices."""
    request = next(pod.request for pod in job.pods if pod.id == start.pod_id)
    slices = [part for name in start.devices if node.geometry and (part := read_slice(name, node.geometry))]
    if slices and node.geometry:
        gpus = [(int(part.device), node.geometry.charge_milli([part.profile])) for part in slices]
    else:
        by_memory = -(-ONE_GPU * request.share_mib // node.device_mib) if request.share_mib else 0
        gpus = [(int(device), by_memory or request.share_milli or ONE_GPU) for device in start.devices]
    return Placement(
        workload_id=job.id,
        pod=pod_name(start.pod_id),
        node_id=start.node_id,
        cpu_millicores=request.cpu_millicores,
        memory_bytes=request.memory_bytes,
        gpus=gpus,
        slices=[part.name for part in slices] or [profile for profile, count in request.mig for _ in range(count)],
    )


def _record_receipts(workload_ids: Sequence[str], receipts: CycleReceipts, *, at: datetime) -> None:
    """Store the receipts of workloads that are evicted, in the transaction that evicts them."""
    named = [receipts.by_victim[pk] for pk in workload_ids]
    rows = Workload.objects.only("project_id", "placed_at")
    known = {row.pk: row for batch in orm.in_batches(sorted(list_job_ids(named))) for row in rows.filter(pk__in=batch)}

    def lost_gpu_s(workload_id: str, gpu_milli: int, saved_at: float | None) -> float:
        return gpu_milli * (at - _saved_at(known[workload_id], saved_at, at)).total_seconds() / ONE_GPU

    Eviction.objects.bulk_create(
        Eviction(
            pool_id=receipts.pool_id,
            cycle=receipts.cycle_id,
            project_id=known[receipt.job_id].project_id,
            workload_id=receipt.job_id,
            code=receipt.code,
            gpu_milli=receipt.gpu_milli,
            placed_at=known[receipt.job_id].placed_at or at,
            saved_at=_saved_at(known[receipt.job_id], receipt.saved_at, at),
            lost_gpu_s=lost_gpu_s(receipt.job_id, receipt.gpu_milli, receipt.saved_at),
            is_moved=receipt.moves_to is not None,
            claimant_id=receipt.claimant_id if receipt.claimant_id in known else None,
            claim_class=receipt.claim_class or "",
            victim_share=_share(receipt.victim),
            claimant_share=_share(receipt.claimant),
            alternatives=[
                {
                    "workload_id": each.job_id,
                    "gpu_milli": each.gpu_milli,
                    "lost_gpu_s": lost_gpu_s(each.job_id, each.gpu_milli, each.saved_at),
                    "why": each.why,
                }
                for each in receipt.alternatives
                if each.job_id in known
            ],
            claim_delay_s=receipt.claim_delay_s,
            min_runtime_s=receipt.min_runtime_s,
            at=at,
        )
        for receipt in named
    )


def store_dump(receipts: CycleReceipts, view: ClusterView, policy: Policy, decisions: Sequence[Decision]) -> None:
    """Store what a cycle decided on and what it decided, unless that is too much."""
    if len(view.jobs) > MOST_DUMPED:
        return

    def store(cycle_id: str) -> None:
        dump = dumps.write(Snapshot(view.nodes, view.queues, list(view.jobs.values())), policy, decisions)
        data = zlib.compress(json.dumps(dump, separators=(",", ":")).encode())
        CycleDump.objects.create(id=cycle_id, pool_id=receipts.pool_id, data=data)

    isolation.for_each(DUMP, [receipts.cycle_id], store)


def collect_receipts() -> None:
    """Delete receipts and dumps that are older than they are kept, and dumps beyond the most that are kept."""
    now = clock.now()
    Eviction.objects.filter(at__lt=now - KEEP_RECEIPTS).delete()
    CycleDump.objects.filter(created_at__lt=now - KEEP_DUMPS).delete()
    beyond = CycleDump.objects.order_by("-pk").values_list("pk", flat=True)[MOST_DUMPS : MOST_DUMPS + 1].first()
    if beyond is not None:
        CycleDump.objects.filter(pk__lte=beyond).delete()


def _saved_at(workload: Workload, saved_at: float | None, at: datetime) -> datetime:
    """Return when its work was last safe: at its last checkpoint, else at its start."""
    started_at = workload.placed_at or at
    return started_at if saved_at is None else max(started_at, datetime.fromtimestamp(saved_at, UTC))


def _share(held: Held | None) -> dict[str, object]:
    return {} if held is None else asdict(held)
