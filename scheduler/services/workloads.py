"""Enqueue, claim, requeue and release workloads. Called by the app that runs jobs, inside its own transaction."""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet

from core import clock, orm, tasks
from core.prepared import insert, prepared
from core.units import ONE_GPU
from scheduler.engine.snapshot import PodSet
from scheduler.engine.states import WORKLOAD, WorkloadState
from scheduler.errors import InvalidRequest
from scheduler.models import PastPlacement, Placement, Reservation, Workload
from scheduler.selectors.queues import find_queue
from scheduler.selectors.resource_pools import choose_pools
from scheduler.selectors.workloads import ENQUEUED, ClaimedPlacement, find_unclaimed, pod_order
from scheduler.services import pool_members

__all__ = ["PodSet", "WorkloadRequest"]

_SAVED_EVERY_S = 10
_AMOUNTS = ("gpu_milli", "cpu_millicores", "memory_bytes")


@dataclass(frozen=True)
class WorkloadRequest:
    """The pods of one job, and the only resource on which they may run.

    Of a resource that labels divide they are in the `pool` that is named, else in the first that could run them.

    A higher `priority` goes first within the project. What is not preemptible starts only within the project's quota.
    `title` is what people call it; empty: as its name. `missing_bytes` maps resources to the bytes of its data that
    have yet to be brought there; None is unknown. `enqueued_at` is when it began to wait, which is its place in line;
    None: now. `price_per_hour` is what an hour of all its pods costs; 0: nobody has said.
    """

    project_id: str
    name: str
    resource_id: str
    pod_sets: Sequence[PodSet]
    priority: int = 50
    is_preemptible: bool = True
    title: str = ""
    missing_bytes: Mapping[str, int] | None = None
    enqueued_at: datetime | None = None
    price_per_hour: float = 0.0
    pool: str = ""


def enqueue_many(requests: Sequence[WorkloadRequest]) -> list[str]:
    """Enqueue workloads, the first request as the oldest; return their ids in the order of the requests.

    A name that exists already gives the workload that has it, unchanged, so a repeated call does no harm. Raises
    InvalidRequest, and then none is enqueued.
    """
    for request in requests:
        _check(request)
    # Inside the caller's transaction no savepoint is needed: what can be refused was refused above.
    with transaction.atomic(savepoint=False):
        queue_ids = _find_queues(requests)
        now = clock.now()
        rows = [
            Workload(
                project_id=request.project_id,
                queue_id=queue_ids[number],
                name=request.name,
                title=request.title,
                priority=request.priority,
                is_preemptible=request.is_preemptible,
                cpu_millicores=sum(pods.count * pods.cpu_millicores for pods in request.pod_sets),
                memory_bytes=sum(pods.count * pods.memory_bytes for pods in request.pod_sets),
                gpu_milli=sum(pods.count * pods.gpu_milli for pods in request.pod_sets),
                pod_sets=[pods.to_json() for pods in request.pod_sets],
                has_many_pods=sum(pods.count for pods in request.pod_sets) > 1,
                resource_id=request.resource_id,
                missing_bytes=None if request.missing_bytes is None else dict(request.missing_bytes),
                price_per_hour=request.price_per_hour,
                enqueued_at=(request.enqueued_at or now) + timedelta(microseconds=number),
            )
            for number, request in enumerate(requests)
        ]
        are_new = insert(rows, ignore_conflicts=True) == len(rows)
        workload_ids = {row.name: row.pk for row in rows} if are_new else _ids_by_name([row.name for row in rows])
        if are_new and (memo := tasks.memo()) is not None:
            memo.setdefault(ENQUEUED, {}).update((row.pk, row) for row in rows)
        tasks.enqueue_on_commit("scheduler.cycle")
        return [workload_ids[request.name] for request in requests]


@transaction.atomic
def set_missing_bytes(missing_bytes: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Change the bytes of their data that have yet to be brought to each resource, of workloads that are pending.

    Return the ids of those that changed. Equal changes share a statement. Raises InvalidRequest for negative numbers.
    """
    if any(size < 0 for sizes in missing_bytes.values() for size in sizes.values()):
        raise InvalidRequest("A workload misses a negative number of bytes.")
    pending = Workload.objects.select_for_update().filter(state=WorkloadState.PENDING)
    changes: dict[str, list[str]] = defaultdict(list)
    rows = pending.filter(pk__in=missing_bytes).order_by("pk").values_list("pk", "missing_bytes")
    for pk, before in rows:
        if before != missing_bytes[pk]:
            changes[json.dumps(missing_bytes[pk], sort_keys=True)].append(pk)
    for text, ids in changes.items():
        Workload.objects.filter(pk__in=ids).update(missing_bytes=json.loads(text), revision=F("revision") + 1)
    if changes:
        tasks.enqueue_on_commit("scheduler.cycle")
    return sorted(pk for ids in changes.values() for pk in ids)


@transaction.atomic(savepoint=False)
def claim_placements(placement_ids: Collection[str]) -> list[ClaimedPlacement]:
    """Claim these placements, each of them once: for the caller whose transaction commits.

    Of a workload with several pods all are claimed that can be, and come in the order of their names and numbers.
    """
    unclaimed = list(_locked_unclaimed(placement_ids))
    if several := {row.workload_id for row in unclaimed if row.workload.has_many_pods}:
        (rows,) = find_unclaimed()
        others = rows.filter(workload__in=several).exclude(pk__in=[row.pk for row in unclaimed])
        unclaimed += _locked_unclaimed(list(others.values_list("pk", flat=True)))
        unclaimed.sort(key=lambda row: (row.workload_id, pod_order(row.pod)))
    _placements.update({"is_claimed": True}, [row.pk for row in unclaimed])
    return [ClaimedPlacement.of(row) for row in unclaimed]


@prepared
def _locked_unclaimed(placement_ids: Collection[str]) -> QuerySet[Placement]:
    rows = Placement.objects.select_for_update(of=("self",)).filter(is_claimed=False, pk__in=placement_ids)
    rows = rows.select_related("node", "workload").only(
        "pod", "gpus", "slices", "node__name", "workload__has_many_pods"
    )
    return rows.order_by("pk")


@prepared
def _placements(placement_ids: Collection[str]) -> QuerySet[Placement]:
    return Placement.objects.filter(pk__in=placement_ids)


@transaction.atomic(savepoint=False)
def requeue_many(workload_ids: Collection[str]) -> list[str]:
    """Requeue workloads that have stopped, or could not begin, with their age; return the ids of those requeued.

    Their capacity is free from then on, unless it is reserved.
    """
    holding = sorted(WORKLOAD.sources_of(WorkloadState.PENDING))
    rows = list(Workload.objects.select_for_update().filter(pk__in=workload_ids, state__in=holding).order_by("pk"))
    ids, now = [row.pk for row in rows], clock.now()
    if ids:
        PastPlacement.objects.bulk_create(
            PastPlacement(
                queue_id=row.queue_id,
                gpu_milli=row.gpu_milli,
                price_per_hour=row.price_per_hour,
                placed_at=row.placed_at or now,
                released_at=now,
            )
            for row in rows
            if not row.has_many_pods
        )
        _end_placements(Placement.objects.filter(workload__in=ids), are_several=any(row.has_many_pods for row in rows))
        Workload.objects.filter(pk__in=ids).update(
            state=WorkloadState.PENDING, placed_at=None, requeued_at=now, reason="", reason_code=""
        )
        _count_asked(rows)
        for reservation in Reservation.objects.filter(workload__in=ids).select_related("node"):
            reasons = {"reason": reservation.reason, "reason_code": reservation.reason_code}
            Workload.objects.filter(pk=reservation.workload_id).update(**reasons)
        tasks.enqueue_on_commit("scheduler.cycle")
    return ids


@transaction.atomic
def requeue_pods(placement_ids: Collection[str]) -> None:
    """Requeue evicted pods that have stopped, of workloads that run on with their other pods."""
    evicted = Placement.objects.filter(
        pk__in=placement_ids, evicting_since__isnull=False, workload__state=WorkloadState.PLACED
    )
    rows = list(Workload.objects.filter(pk__in=evicted.values("workload")).order_by("pk"))
    _end_placements(evicted, are_several=True)
    count_held(rows)
    tasks.enqueue_on_commit("scheduler.cycle")


@transaction.atomic(savepoint=False)
def withdraw_many(workload_ids: Collection[str]) -> list[str]:
    """Withdraw workloads that are pending and return their ids; those that were placed meanwhile are left alone."""
    return _end(workload_ids, {WorkloadState.PENDING})


@transaction.atomic(savepoint=False)
def release_many(workload_ids: Collection[str]) -> list[str]:
    """Release workloads, pending or placed, with their capacity; return the ids of those that this call released."""
    return _end(workload_ids, WORKLOAD.sources_of(WorkloadState.RELEASED))


def _end(workload_ids: Collection[str], states: Collection[WorkloadState]) -> list[str]:
    # Several rows are locked in the order of their keys first; one needs no order.
    ids = workload_ids if len(workload_ids) == 1 else _locked_in(workload_ids, sorted(states))
    released = {"state": WorkloadState.RELEASED, "released_at": clock.now()}
    released |= {"reason": "", "reason_code": "", "answer": None}
    facts = _in_states.update_returning(released, ("pk", "has_many_pods", "is_reserved_for"), ids, sorted(states))
    ids = sorted(pk for pk, *_ in facts)
    if ids:
        if any(is_gang for _, is_gang, _ in facts):
            _end_placements(Placement.objects.filter(workload__in=ids), are_several=True)
        else:
            _placements_of.delete(ids)
        if any(is_reserved_for for *_, is_reserved_for in facts):
            Reservation.objects.filter(workload__in=ids).delete()
        tasks.enqueue_on_commit("scheduler.cycle")
    return ids


@prepared
def _locked_in(workload_ids: Collection[str], states: Collection[str]) -> QuerySet[Workload, str]:
    live = Workload.objects.select_for_update().filter(pk__in=workload_ids, state__in=states)
    return live.order_by("pk").values_list("pk", flat=True)


@prepared
def _in_states(workload_ids: Collection[str], states: Collection[str]) -> QuerySet[Workload]:
    is_reserved_for = Exists(Reservation.objects.filter(workload=OuterRef("pk")))
    return Workload.objects.filter(pk__in=workload_ids, state__in=states).annotate(is_reserved_for=is_reserved_for)


def note_saved(*, workload_id: str, at: datetime) -> None:
    """Note when a workload saved a checkpoint: of equal victims the one that lost least goes first.

    What changes is read anew by the next cycle, so it is noted at most every ten seconds.
    """
    at_s = int(at.timestamp())
    Placement.objects.filter(workload=workload_id, saved_at_s__lte=at_s - _SAVED_EVERY_S).update(saved_at_s=at_s)


@prepared
def _placements_of(workload_ids: Collection[str]) -> QuerySet[Placement]:
    return Placement.objects.filter(workload__in=workload_ids)


def count_held(rows: Sequence[Workload]) -> None:
    """Count as what placed workloads hold what their pods got, where that is known only then.

    It is of those that run with less than all of their pods, and of parts of GPUs by memory or in slices.
    """
    varying = [row for row in rows if _is_elastic(row) or any(map(_is_sized_late, row.pod_sets))]
    if not varying:
        return
    held: dict[str, list[Placement]] = defaultdict(list)
    for placement in Placement.objects.filter(workload__in=varying):
        held[placement.workload_id].append(placement)
    for row in varying:
        row.gpu_milli = sum(milli for placement in held[row.pk] for _, milli in placement.gpus)
        row.cpu_millicores = sum(placement.cpu_millicores for placement in held[row.pk])
        row.memory_bytes = sum(placement.memory_bytes for placement in held[row.pk])
    Workload.objects.bulk_update(varying, _AMOUNTS)


def _count_asked(rows: Sequence[Workload]) -> None:
    """Count as what elastic workloads ask for all of their pods again, once they wait."""
    waiting = [row for row in rows if _is_elastic(row)]
    for row in waiting:
        for column in _AMOUNTS:
            setattr(row, column, sum(pods["count"] * pods[column] for pods in row.pod_sets))
    if waiting:
        Workload.objects.bulk_update(waiting, _AMOUNTS)


def _is_elastic(row: Workload) -> bool:
    return row.has_many_pods and any(pods["min_count"] < pods["count"] for pods in row.pod_sets)


def _is_sized_late(pods: Mapping[str, Any]) -> bool:
    return bool(pods["gpu_memory_bytes"] or pods.get("mig_profile"))


def _end_placements(placements: QuerySet[Placement], *, are_several: bool) -> None:
    """Delete placements. Of workloads with several pods, which come and go singly, each is kept for the history."""
    if are_several:
        now, several = clock.now(), placements.filter(workload__has_many_pods=True).select_related("workload")
        PastPlacement.objects.bulk_create(
            PastPlacement(
                queue_id=row.workload.queue_id,
                gpu_milli=sum(milli for _, milli in row.gpus),
                price_per_hour=row.workload.price_per_pod_hour,
                placed_at=row.created_at,
                released_at=now,
            )
            for row in several.order_by("pk")
        )
    placements.delete()


def _find_queues(requests: Sequence[WorkloadRequest]) -> list[str]:
    """Return the id of the queue of each request, making those that are missing."""
    keys = {(request.resource_id, request.pool, request.project_id) for request in requests}
    if len(keys) == 1:
        ((resource_id, pool, project_id),) = keys
        find = partial(find_queue, project_id=project_id, resource_id=resource_id, pool=pool)
        if known := tasks.recently(("queue", project_id, resource_id, pool), find):
            return [known] * len(requests)
    pool_ids = choose_pools(
        [(each.resource_id, each.pool, [pods.to_json() for pods in each.pod_sets]) for each in requests]
    )
    project_ids = defaultdict(set)
    for request, pool_id in zip(requests, pool_ids, strict=True):
        project_ids[pool_id].add(request.project_id)
    queue_ids = {
        pool_id: pool_members.ensure_queues(members, pool_id=pool_id) for pool_id, members in project_ids.items()
    }
    return [queue_ids[pool_id][request.project_id] for request, pool_id in zip(requests, pool_ids, strict=True)]


def _ids_by_name(names: list[str]) -> dict[str, str]:
    return {name: workload_id for batch in orm.in_batches(names) for name, workload_id in _named(batch)}


@prepared
def _named(names: Collection[str]) -> QuerySet[Workload, tuple[str, str]]:
    return Workload.objects.filter(name__in=names).values_list("name", "pk")


def _check(request: WorkloadRequest) -> None:
    if not request.pod_sets or len({pods.name for pods in request.pod_sets}) < len(request.pod_sets):
        raise InvalidRequest(f"'{request.name}' has no pods, or two sets of pods with one name.")
    for pods in request.pod_sets:
        _check_pods(request.name, pods)
    if any(size < 0 for size in (request.missing_bytes or {}).values()):
        raise InvalidRequest(f"'{request.name}' misses a negative number of bytes.")


def _check_pods(name: str, pods: PodSet) -> None:
    if pods.cpu_millicores <= 0 or pods.memory_bytes <= 0 or pods.gpu_milli < 0 or pods.gpu_memory_bytes < 0:
        raise InvalidRequest(f"'{name}' asks for no CPU, no memory or a negative amount of GPUs.")
    if pods.gpu_milli > ONE_GPU and pods.gpu_milli % ONE_GPU:
        raise InvalidRequest(f"'{name}' asks for {pods.gpu_milli / ONE_GPU:g} GPUs: more than one must be whole ones.")
    if sum(map(bool, (pods.gpu_milli, pods.gpu_memory_bytes, pods.mig_profile))) > 1:
        raise InvalidRequest(f"'{name}' asks for GPUs in several ways: by number, by memory or by MIG profile.")
    if pods.count < 1 or not 0 <= (pods.count if pods.min_count is None else pods.min_count) <= pods.count:
        raise InvalidRequest(f"'{name}' asks for less than one pod, or needs more pods than it asks for.")
