"""Writes the decisions of a cycle by compare-and-set: what has changed since is skipped, and decided again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog
from django.db import transaction

from core import clock
from core.metrics import EVICTIONS
from core.signals import send_on_commit
from scheduler import signals
from scheduler.engine.decisions import Reserve, Start, Stop, Withdraw
from scheduler.engine.resources import ONE_GPU
from scheduler.engine.snapshot import JobView
from scheduler.engine.states import WorkloadState
from scheduler.models import Node, Placement, Reservation, Workload
from scheduler.workers.snapshots import ClusterView

log = structlog.get_logger(__name__)

Move = Start | Reserve | Withdraw | Stop


@dataclass(frozen=True)
class Applied:
    """How many workloads were placed, got a reservation, and were evicted."""

    placed: int = 0
    reserved: int = 0
    evicted: int = 0

    def __add__(self, other: "Applied") -> "Applied":
        return Applied(self.placed + other.placed, self.reserved + other.reserved, self.evicted + other.evicted)


@transaction.atomic
def apply_moves(batch: Sequence[Move], view: ClusterView) -> Applied:
    """Apply moves. None relies on another: a reservation that no eviction serves is withdrawn later."""
    rooms = [move for move in batch if isinstance(move, Start | Reserve)]
    nodes = {node.pk: node for node in _lock_nodes({move.node_id for move in rooms})}
    unchanged = {pk for pk, node in nodes.items() if view.revisions[pk] == node.revision}
    found = Workload.objects.select_for_update().filter(pk__in={move.job_id for move in batch})
    rows = {row.pk: row for row in found.order_by("pk")}
    evicted = _evict([(rows[move.job_id], move) for move in batch if isinstance(move, Stop) and move.job_id in rows])
    Reservation.objects.filter(workload__in=[move.job_id for move in batch if isinstance(move, Withdraw)]).delete()
    good = [(rows[move.job_id], move) for move in rooms if move.job_id in rows and move.node_id in unchanged]
    reserved = _reserve([(row, move) for row, move in good if isinstance(move, Reserve)], nodes)
    placed = _place([(row, move) for row, move in good if isinstance(move, Start)], view.jobs)
    return Applied(placed, reserved, evicted)


def _lock_nodes(node_ids: set[str]) -> list[Node]:
    if not node_ids:
        return []
    return list(Node.objects.select_for_update().filter(pk__in=node_ids).order_by("pk"))


def _evict(stops: Sequence[tuple[Workload, Stop]]) -> int:
    """Evict workloads. They hold their capacity until they have stopped."""
    good = [(row, stop) for row, stop in stops if row.state == WorkloadState.PLACED]
    for row, stop in good:
        row.state = WorkloadState.TERMINATING
        row.reason, row.reason_code = stop.text, str(stop.code)
        row.evictions += 1
    if good:
        Workload.objects.bulk_update([row for row, _ in good], ["state", "reason", "reason_code", "evictions"])
        workload_ids = [row.pk for row, _ in good]
        Placement.objects.filter(workload__in=workload_ids).update(evicting_since=clock.now())
        send_on_commit(signals.workload_evicted, workload_ids=workload_ids)
        for row, stop in good:
            EVICTIONS.labels(stop.code).inc()
            log.info("scheduler.evicted", workload=row.pk, reason=str(stop.code), for_workload=stop.for_job)
    return len(good)


def _reserve(reserves: Sequence[tuple[Workload, Reserve]], nodes: Mapping[str, Node]) -> int:
    """Reserve capacity for workloads that are pending, or that move."""
    good = [
        (row, reserve) for row, reserve in reserves if row.state in {WorkloadState.PENDING, WorkloadState.TERMINATING}
    ]
    reservations = [
        Reservation(workload=row, node=nodes[reserve.node_id], devices=reserve.devices) for row, reserve in good
    ]
    if reservations:
        Reservation.objects.bulk_create(
            reservations, update_conflicts=True, unique_fields=["workload"], update_fields=["node", "devices"]
        )
    waiting = [reservation for reservation in reservations if reservation.workload.state == WorkloadState.PENDING]
    for reservation in waiting:
        row = reservation.workload
        row.reason, row.reason_code, row.answer = reservation.reason, reservation.reason_code, None
    if waiting:
        Workload.objects.bulk_update(
            [reservation.workload for reservation in waiting], ["reason", "reason_code", "answer"]
        )
    return len(reservations)


def _place(starts: Sequence[tuple[Workload, Start]], jobs: Mapping[str, JobView]) -> int:
    good = [(row.pk, start) for row, start in starts if row.state == WorkloadState.PENDING]
    workload_ids = [pk for pk, _ in good]
    if good:
        Reservation.objects.filter(workload__in=workload_ids).delete()
        Placement.objects.bulk_create(
            Placement(workload_id=pk, node_id=start.node_id, gpus=_gpus(jobs[pk], start)) for pk, start in good
        )
        Workload.objects.filter(pk__in=workload_ids).update(
            state=WorkloadState.PLACED, placed_at=clock.now(), reason="", reason_code="", answer=None
        )
        send_on_commit(signals.workload_placed, workload_ids=workload_ids)
    return len(good)


def _gpus(job: JobView, start: Start) -> list[tuple[int, int]]:
    """Return each device's index with the thousandths of it that are taken."""
    request = job.pods[0].request
    return [(int(device), request.share_milli or ONE_GPU) for device in start.devices]
