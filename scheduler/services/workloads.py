"""Enqueue, claim, requeue and release workloads. Called by the app that runs jobs, inside its own transaction."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction

from core import clock, tasks
from scheduler.engine.states import WORKLOAD, WorkloadState
from scheduler.errors import InvalidRequest
from scheduler.models import PastPlacement, Placement, Reservation, Workload
from scheduler.services import queues

ONE_GPU = 1000


@dataclass(frozen=True)
class WorkloadRequest:
    """What one job asks for, and the only resource on which it may run.

    `gpu_milli` is below 1000 for a fraction of one device, else a multiple of 1000 for whole devices of one node. A
    higher `priority` goes first within the project. What is not preemptible starts only within the project's quota.
    `title` is what people call it; empty: as its name.
    """

    project_id: str
    name: str
    resource_id: str
    cpu_millicores: int
    memory_bytes: int
    gpu_milli: int = 0
    priority: int = 50
    is_preemptible: bool = True
    title: str = ""


@dataclass(frozen=True)
class ClaimedPlacement:
    """Where a workload runs: a node and, as pairs of index and thousandths, devices of it."""

    workload_id: str
    node_name: str
    gpus: Sequence[Sequence[int]]


@transaction.atomic
def enqueue_many(requests: Sequence[WorkloadRequest]) -> list[str]:
    """Enqueue workloads, the first request as the oldest; return their ids in the order of the requests.

    A name that exists already gives the workload that has it, unchanged, so a repeated call does no harm. Raises
    InvalidRequest, and then none is enqueued.
    """
    for request in requests:
        _check(request)
    queue_ids = queues.ensure_queues({request.project_id for request in requests})
    now = clock.now()
    Workload.objects.bulk_create(
        [
            Workload(
                project_id=request.project_id,
                queue_id=queue_ids[request.project_id],
                name=request.name,
                title=request.title,
                priority=request.priority,
                is_preemptible=request.is_preemptible,
                cpu_millicores=request.cpu_millicores,
                memory_bytes=request.memory_bytes,
                gpu_milli=request.gpu_milli,
                resource_id=request.resource_id,
                enqueued_at=now + timedelta(microseconds=number),
            )
            for number, request in enumerate(requests)
        ],
        ignore_conflicts=True,
        batch_size=500,
    )
    found = _ids_by_name([request.name for request in requests])
    tasks.enqueue_on_commit("scheduler.cycle")
    return [found[request.name] for request in requests]


def list_unclaimed() -> list[str]:
    """Return the ids of the placements that are not claimed yet, the oldest first.

    One table and an index of exactly these rows: a join of waiting jobs with what they got is planned badly by a
    database that has no statistics yet, or old ones, because both sides are empty most of the time.
    """
    return list(Placement.objects.filter(is_claimed=False).order_by("pk").values_list("pk", flat=True))


@transaction.atomic
def claim_placements(placement_ids: Collection[str]) -> list[ClaimedPlacement]:
    """Claim these placements, each of them once: for the caller whose transaction commits."""
    rows = Placement.objects.select_for_update(of=("self",)).filter(is_claimed=False).select_related("node")
    taken = list(rows.filter(pk__in=placement_ids).order_by("pk"))
    Placement.objects.filter(pk__in=[row.pk for row in taken]).update(is_claimed=True)
    return [ClaimedPlacement(row.workload_id, row.node.name, row.gpus) for row in taken]


def list_terminating() -> dict[str, str]:
    """Return by id why workloads are evicted, of those that have not stopped yet."""
    return dict(Workload.objects.filter(state=WorkloadState.TERMINATING).order_by("pk").values_list("pk", "reason"))


@transaction.atomic
def requeue_many(workload_ids: Collection[str]) -> list[str]:
    """Requeue evicted workloads that have stopped, with their age; return the ids of those requeued.

    Their capacity is free from then on, unless it is reserved.
    """
    leaving = Workload.objects.select_for_update().filter(pk__in=workload_ids, state=WorkloadState.TERMINATING)
    rows = list(leaving.order_by("pk"))
    ids, now = [row.pk for row in rows], clock.now()
    if ids:
        PastPlacement.objects.bulk_create(
            PastPlacement(
                queue_id=row.queue_id, gpu_milli=row.gpu_milli, placed_at=row.placed_at or now, released_at=now
            )
            for row in rows
        )
        Placement.objects.filter(workload__in=ids).delete()
        Workload.objects.filter(pk__in=ids).update(
            state=WorkloadState.PENDING, placed_at=None, requeued_at=now, reason="", reason_code=""
        )
        for reservation in Reservation.objects.filter(workload__in=ids).select_related("node"):
            told = {"reason": reservation.reason, "reason_code": reservation.reason_code}
            Workload.objects.filter(pk=reservation.workload_id).update(**told)
        tasks.enqueue_on_commit("scheduler.cycle")
    return ids


@transaction.atomic
def withdraw_many(workload_ids: Collection[str]) -> list[str]:
    """Withdraw workloads that are pending and return their ids; those that were placed meanwhile are left alone."""
    return _end(workload_ids, {WorkloadState.PENDING})


@transaction.atomic
def release_many(workload_ids: Collection[str]) -> list[str]:
    """Release workloads, pending or placed, with their capacity; return the ids of those that this call released."""
    return _end(workload_ids, WORKLOAD.sources_of(WorkloadState.RELEASED))


def _end(workload_ids: Collection[str], states: Collection[WorkloadState]) -> list[str]:
    live = Workload.objects.select_for_update().filter(pk__in=workload_ids, state__in=states)
    ids = list(live.order_by("pk").values_list("pk", flat=True))
    if ids:
        Placement.objects.filter(workload__in=ids).delete()
        Reservation.objects.filter(workload__in=ids).delete()
        Workload.objects.filter(pk__in=ids).update(
            state=WorkloadState.RELEASED, released_at=clock.now(), reason="", reason_code="", answer=None
        )
        tasks.enqueue_on_commit("scheduler.cycle")
    return ids


def _ids_by_name(names: list[str]) -> dict[str, str]:
    return {
        name: workload_id
        for start in range(0, len(names), 500)
        for name, workload_id in Workload.objects.filter(name__in=names[start : start + 500]).values_list("name", "pk")
    }


def _check(request: WorkloadRequest) -> None:
    if request.cpu_millicores <= 0 or request.memory_bytes <= 0 or request.gpu_milli < 0:
        raise InvalidRequest(f"'{request.name}' asks for no CPU, no memory or a negative amount of GPUs.")
    if request.gpu_milli > ONE_GPU and request.gpu_milli % ONE_GPU:
        raise InvalidRequest(
            f"'{request.name}' asks for {request.gpu_milli / ONE_GPU:g} GPUs: more than one must be whole ones."
        )
