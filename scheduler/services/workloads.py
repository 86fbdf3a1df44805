"""Workloads come, and give their room back. Called by the app that runs jobs, inside its own transaction."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction

from core import clock, tasks
from scheduler.engine.states import WORKLOAD, WorkloadState
from scheduler.errors import InvalidRequest
from scheduler.models import Placement, Promise, Stay, Workload
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
class Room:
    """What a workload has got: a node and, as pairs of index and thousandths, devices of it."""

    workload_id: str
    node_name: str
    gpus: Sequence[Sequence[int]]


@transaction.atomic
def enqueue_many(requests: Sequence[WorkloadRequest]) -> list[str]:
    """Let workloads wait for room, the first request being the oldest; return their ids in the order of the requests.

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


def list_untaken() -> list[str]:
    """Return the ids of the placements of which nobody knows yet, the oldest first.

    One table and an index of exactly these rows: a join of waiting jobs with what they got is planned badly by a
    database that has no statistics yet, or old ones, because both sides are empty most of the time.
    """
    return list(Placement.objects.filter(is_taken=False).order_by("pk").values_list("pk", flat=True))


@transaction.atomic
def take_rooms(placement_ids: Collection[str]) -> list[Room]:
    """Hand over the rooms of these placements, each of them once: to the caller whose transaction commits."""
    rows = Placement.objects.select_for_update(of=("self",)).filter(is_taken=False).select_related("node")
    taken = list(rows.filter(pk__in=placement_ids).order_by("pk"))
    Placement.objects.filter(pk__in=[row.pk for row in taken]).update(is_taken=True)
    return [Room(row.workload_id, row.node.name, row.gpus) for row in taken]


def list_leaving() -> dict[str, str]:
    """Return by id why workloads are to give up their room, of those that have not yet."""
    return dict(Workload.objects.filter(state=WorkloadState.LEAVING).order_by("pk").values_list("pk", "reason"))


@transaction.atomic
def requeue_many(workload_ids: Collection[str]) -> list[str]:
    """Let evicted workloads that have stopped wait again, as old as they are; return the ids of those that do now.

    Their room is free from then on, but for what was promised to others.
    """
    leaving = Workload.objects.select_for_update().filter(pk__in=workload_ids, state=WorkloadState.LEAVING)
    rows = list(leaving.order_by("pk"))
    ids, now = [row.pk for row in rows], clock.now()
    if ids:
        Stay.objects.bulk_create(
            Stay(queue_id=row.queue_id, gpu_milli=row.gpu_milli, placed_at=row.placed_at or now, released_at=now)
            for row in rows
        )
        Placement.objects.filter(workload__in=ids).delete()
        Workload.objects.filter(pk__in=ids).update(
            state=WorkloadState.PENDING, placed_at=None, requeued_at=now, reason="", reason_code=""
        )
        for promise in Promise.objects.filter(workload__in=ids).select_related("node"):
            told = {"reason": promise.reason, "reason_code": promise.reason_code}
            Workload.objects.filter(pk=promise.workload_id).update(**told)
        tasks.enqueue_on_commit("scheduler.cycle")
    return ids


@transaction.atomic
def withdraw_many(workload_ids: Collection[str]) -> list[str]:
    """Take back workloads that still wait and return their ids; those that got their room meanwhile are left alone."""
    return _end(workload_ids, {WorkloadState.PENDING})


@transaction.atomic
def release_many(workload_ids: Collection[str]) -> list[str]:
    """End workloads, waiting or placed, give their room back, and return the ids of those that this call ended."""
    return _end(workload_ids, WORKLOAD.sources_of(WorkloadState.RELEASED))


def _end(workload_ids: Collection[str], states: Collection[WorkloadState]) -> list[str]:
    live = Workload.objects.select_for_update().filter(pk__in=workload_ids, state__in=states)
    ids = list(live.order_by("pk").values_list("pk", flat=True))
    if ids:
        Placement.objects.filter(workload__in=ids).delete()
        Promise.objects.filter(workload__in=ids).delete()
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
