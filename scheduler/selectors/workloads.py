"""Reads about workloads, limited to the projects of the actor."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

from django.db.models import QuerySet

from accounts.permissions import Actor
from accounts.selectors import get_project
from core import tasks
from core.orm import in_batches
from scheduler.engine.decisions import FOR_GOOD
from scheduler.engine.states import WorkloadState
from scheduler.models import Placement, Workload

ENQUEUED = "scheduler.enqueued"
"""What a task remembers: the workloads that it enqueued, by id."""


@dataclass(frozen=True)
class WorkloadWait:
    """Why a workload is pending: the sentence, its code for programs, and what would let it start."""

    reason: str = ""
    reason_code: str = ""
    advice: str = ""


@dataclass(frozen=True)
class ClaimedPlacement:
    """Where a pod of a workload runs: a node and, as pairs of index and thousandths, devices of it.

    `slices` names the slices of devices that it got (MIG): `0:3g.20gb@4` by device, profile and start, or `3g.20gb`
    where slices were cut beforehand.
    """

    workload_id: str
    pod: str
    node_name: str
    gpus: Sequence[Sequence[int]]
    slices: Sequence[str] = ()

    @classmethod
    def of(cls, row: Placement) -> Self:
        """Return what a row with its node says."""
        return cls(row.workload_id, row.pod, row.node.name, row.gpus, row.slices)


@dataclass(frozen=True)
class WorkloadPods:
    """The pods of a workload that hold capacity and go on, and the ids of the placements that are evicted."""

    places: Sequence[ClaimedPlacement]
    evicted_ids: Sequence[str]


def waits_of(workload_ids: Collection[str]) -> Mapping[str, WorkloadWait]:
    """Return by id why these workloads are pending. For apps above that have checked who may know."""
    rows = Workload.objects.filter(pk__in=workload_ids).select_related("answer").order_by()
    return {row.pk: WorkloadWait(row.why, row.why_code, row.answer.advice if row.answer else "") for row in rows}


def list_enqueued_here() -> Mapping[str, Workload]:
    """Return the rows of the workloads that the task of this thread enqueued, by id, as they were then.

    Those whose transaction was rolled back are among them.
    """
    memo = tasks.memo()
    return {} if memo is None else memo.get(ENQUEUED, {})


def find_pending_with_data() -> list[QuerySet[Workload]]:
    """Return the pending workloads that read datasets. For the app that runs jobs."""
    return [Workload.objects.filter(state=WorkloadState.PENDING, missing_bytes__isnull=False).order_by("pk")]


def list_waiting(workload_ids: Collection[str]) -> set[str]:
    """Return those of these workloads that a cycle has left without a place. For the platform itself."""
    waiting = Workload.objects.filter(state=WorkloadState.PENDING).exclude(answer=None, reason_code="").order_by()
    rows = (waiting.filter(pk__in=batch).values_list("pk", flat=True) for batch in in_batches(workload_ids))
    return set(chain.from_iterable(rows))


def find_queue_ids(workload_ids: Collection[str]) -> dict[str, str]:
    """Return the queues of workloads by their ids. For the platform itself."""
    rows = (Workload.objects.filter(pk__in=batch).values_list("pk", "queue_id") for batch in in_batches(workload_ids))
    return dict(chain.from_iterable(rows))


def find_pool_ids(workload_ids: Collection[str]) -> dict[str, str]:
    """Return the pools of workloads by their ids. For the platform itself."""
    columns = ("pk", "queue__pool_id")
    rows = (Workload.objects.filter(pk__in=batch).values_list(*columns) for batch in in_batches(workload_ids))
    return dict(chain.from_iterable(rows))


def find_pool_name(workload_id: str) -> str | None:
    """Return the name of the pool in which a workload is; None: there is no such workload. For the platform itself."""
    return Workload.objects.filter(pk=workload_id).values_list("queue__pool__name", flat=True).first()


def list_workloads(
    *, actor: Actor, state: WorkloadState | None = None, project: str | None = None
) -> QuerySet[Workload]:
    """Return workloads with project, placements and answer, newest first; of one state or project where asked."""
    workloads = (
        Workload.objects.select_related("project", "answer").prefetch_related("placements__node").order_by("-pk")
    )
    if not actor.sees_everything:
        workloads = workloads.filter(project_id__in=actor.project_ids)
    if project is not None:
        workloads = workloads.filter(project=get_project(actor=actor, name=project))
    return workloads if state is None else workloads.filter(state=state)


def find_unclaimed() -> list[QuerySet[Placement]]:
    """Return the placements that are not claimed yet."""
    return [Placement.objects.filter(is_claimed=False)]


def find_terminating() -> list[QuerySet[Workload]]:
    """Return the workloads that are evicted and have not stopped yet."""
    return [Workload.objects.filter(state=WorkloadState.TERMINATING)]


def find_unclaimed_on(resources: QuerySet[Any, Any]) -> QuerySet[Placement, str]:
    """Return the ids of the placements on resources that are not claimed yet, the oldest first.

    One table and an index of exactly these rows: a join of waiting jobs with what they got is planned badly by a
    database that has no statistics yet, or old ones, because both sides are empty most of the time.
    """
    (unclaimed,) = find_unclaimed()
    return unclaimed.filter(node__resource_id__in=resources).order_by("pk").values_list("pk", flat=True)


def list_terminating() -> dict[str, str]:
    """Return by id why workloads are evicted, of those that have not stopped yet."""
    (terminating,) = find_terminating()
    return dict(terminating.order_by("pk").values_list("pk", "reason"))


def list_overdue() -> dict[str, str]:
    """Return by id which limit workloads have reached that have not stopped yet: they are not requeued."""
    (terminating,) = find_terminating()
    overdue = terminating.filter(reason_code__in=sorted(FOR_GOOD))
    return dict(overdue.values_list("pk", "reason_code"))


def list_pods(workload_ids: Collection[str]) -> dict[str, WorkloadPods]:
    """Return the pods of placed workloads, in the order of their names and numbers."""
    placed = Placement.objects.filter(workload__in=workload_ids, workload__state=WorkloadState.PLACED)
    placements: dict[str, list[Placement]] = defaultdict(list)
    for row in placed.select_related("node").order_by("pk"):
        placements[row.workload_id].append(row)
    return {
        workload_id: WorkloadPods(
            [
                ClaimedPlacement.of(row)
                for row in sorted(rows, key=lambda row: pod_order(row.pod))
                if row.evicting_since is None
            ],
            [row.pk for row in rows if row.evicting_since is not None],
        )
        for workload_id, rows in placements.items()
    }


def pod_order(pod: str) -> tuple[str, int]:
    """Return the set of a pod, and its number there, from its name."""
    name, _, number = pod.rpartition("-")
    return name, int(number)
