"""One cycle: load a snapshot, let the engine decide, apply each decision by compare-and-set.

Only the holder of the lease applies, and every batch checks that nobody took the lease since: two controllers may
run, but a placement is never made on a view that another one has outdated. Workloads that leave while a cycle runs
are skipped, nodes that change take nothing until the next cycle.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import structlog
from django.db import transaction

from core import clock, ids
from core.metrics import CYCLE_SECONDS
from core.models import give_back_lease, renew_lease, take_lease
from core.signals import send_on_commit
from scheduler import signals
from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import Explain, Place
from scheduler.engine.resources import Amount, Quota
from scheduler.engine.session import Session
from scheduler.engine.snapshot import NodeView, Placed, Policy, QueueView, Shape, Snapshot, Waiting
from scheduler.engine.states import WorkloadState
from scheduler.models import Node, Placement, Queue, Workload

log = structlog.get_logger(__name__)

_LEASE = "scheduler.cycle"
_LEASE_S = 30.0
_PLACED_AT_ONCE = 100
_EXPLAINED_AT_ONCE = 500
_POLICY = Policy()


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
    snapshot = _load().snapshot
    queues = [(changed or {}).get(queue.id, queue) for queue in snapshot.queues]
    session = Session(replace(snapshot, queues=queues), _POLICY)
    return {queue_id: share.fair.gpu_milli for queue_id, share in session.shares.items()}


def view_queue(queue: Queue) -> QueueView:
    """Return a queue as the engine sees it. The project should be loaded."""
    return _queue(queue)


def _run(policy: Policy, holder: str) -> CycleReport:
    view = _load()
    decisions = run_cycle(view.snapshot, policy)
    places = [decision for decision in decisions if isinstance(decision, Place)]
    explains = [decision for decision in decisions if isinstance(decision, Explain)]
    placed = 0
    for start in range(0, len(places), _PLACED_AT_ONCE):
        placed += _apply(places[start : start + _PLACED_AT_ONCE], view, holder)
    _store_reasons(explains, view)
    if places:
        log.info("scheduler.cycle", placed=placed, skipped=len(places) - placed, waiting=len(explains))
    return CycleReport(placed, len(explains), len(places) - placed)


@transaction.atomic
def _apply(batch: Sequence[Place], view: _View, holder: str) -> int:
    if not renew_lease(_LEASE, holder=holder, for_s=_LEASE_S):
        return 0
    nodes = Node.objects.select_for_update().filter(pk__in={place.node_id for place in batch}).order_by("pk")
    unchanged = {pk for pk, revision in nodes.values_list("pk", "revision") if view.revisions[pk] == revision}
    rows = Workload.objects.select_for_update().filter(pk__in=[place.workload_id for place in batch])
    pending = set(rows.filter(state=WorkloadState.PENDING).order_by("pk").values_list("pk", flat=True))
    good = [place for place in batch if place.node_id in unchanged and place.workload_id in pending]
    Placement.objects.bulk_create(
        Placement(workload_id=place.workload_id, node_id=place.node_id, gpus=place.gpus) for place in good
    )
    workload_ids = [place.workload_id for place in good]
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
        if view.reasons[explain.workload_id] != reason:
            changed[reason].append(explain.workload_id)
    for (code, text), workload_ids in changed.items():
        for start in range(0, len(workload_ids), _EXPLAINED_AT_ONCE):
            batch = workload_ids[start : start + _EXPLAINED_AT_ONCE]
            waiting = Workload.objects.filter(pk__in=batch, state=WorkloadState.PENDING)
            waiting.update(reason_code=code, reason=text)


def _load() -> _View:
    """Read everything in a fixed number of queries. A project that is deleted meanwhile takes its workloads along."""
    nodes = Node.objects.order_by("pk").prefetch_related("gpus")
    revisions = {node.pk: node.revision for node in nodes}
    waiting = list(Workload.objects.filter(state=WorkloadState.PENDING).order_by("pk"))
    placements = Placement.objects.select_related("workload").order_by("pk")
    queues = {queue.pk: _queue(queue) for queue in Queue.objects.select_related("project").order_by("pk")}
    snapshot = Snapshot(
        nodes=[_node(node) for node in nodes],
        queues=list(queues.values()),
        waiting=[_waiting(workload) for workload in waiting if workload.queue_id in queues],
        placed=[_placed(placement) for placement in placements if placement.workload.queue_id in queues],
    )
    return _View(snapshot, revisions, {row.pk: (row.reason_code, row.reason) for row in waiting})


def _node(node: Node) -> NodeView:
    return NodeView(
        id=node.pk,
        name=node.name,
        resource_id=node.resource_id,
        resource_name=node.resource_name,
        cpu_millicores=node.cpu_millicores,
        memory_bytes=node.memory_bytes,
        devices=tuple(sorted(gpu.index for gpu in node.gpus.all())),
        is_ready=node.is_ready,
        is_drained=node.is_drained,
    )


def _queue(queue: Queue) -> QueueView:
    return QueueView(
        id=queue.pk,
        name=queue.project.name,
        created_at=queue.created_at,
        quota=Quota(queue.gpu_quota_milli, queue.cpu_quota_millicores, queue.memory_quota_bytes),
        weight=queue.over_quota_weight,
    )


def _needs(workload: Workload) -> Amount:
    return Amount(workload.gpu_milli, workload.cpu_millicores, workload.memory_bytes)


def _waiting(workload: Workload) -> Waiting:
    return Waiting(
        id=workload.pk,
        queue_id=workload.queue_id,
        shape=Shape(workload.resource_id, _needs(workload)),
        enqueued_at=workload.enqueued_at,
        priority=workload.priority,
        is_preemptible=workload.is_preemptible,
    )


def _placed(placement: Placement) -> Placed:
    return Placed(
        id=placement.workload_id,
        queue_id=placement.workload.queue_id,
        node_id=placement.node_id,
        holds=_needs(placement.workload),
        gpus=tuple((index, milli) for index, milli in placement.gpus),
        is_preemptible=placement.workload.is_preemptible,
    )
