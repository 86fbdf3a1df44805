"""Reads about workloads, limited to the projects of the actor."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import chain

from django.db.models import QuerySet

from accounts.actor import Actor
from accounts.selectors import get_project
from core import tasks
from core.orm import in_batches
from scheduler.engine.states import WorkloadState
from scheduler.models import Workload

ENQUEUED = "scheduler.enqueued"
"""What a task remembers: the workloads that it enqueued, by id."""


@dataclass(frozen=True)
class WorkloadWait:
    """Why a workload is pending: the sentence, its code for programs, and what would let it start."""

    reason: str = ""
    reason_code: str = ""
    advice: str = ""


def waits_of(workload_ids: Collection[str]) -> Mapping[str, WorkloadWait]:
    """Return by id why these workloads are pending. For apps above that have checked who may know."""
    rows = Workload.objects.filter(pk__in=workload_ids).order_by()
    columns = rows.values_list("pk", "reason", "reason_code", "answer__advice")
    return {pk: WorkloadWait(reason, code, advice or "") for pk, reason, code, advice in columns}


def list_enqueued_here() -> Mapping[str, Workload]:
    """Return the rows of the workloads that the task of this thread enqueued, by id, as they were then.

    Those whose transaction was rolled back are among them.
    """
    memo = tasks.memo()
    return {} if memo is None else memo.get(ENQUEUED, {})


def find_pending_with_data() -> list[QuerySet[Workload]]:
    """Return the pending workloads that read datasets. For the app that runs jobs."""
    return [Workload.objects.filter(state=WorkloadState.PENDING, missing_bytes__isnull=False).order_by("pk")]


def find_queue_ids(workload_ids: Collection[str]) -> dict[str, str]:
    """Return the queues of workloads by their ids. For the platform itself."""
    rows = (Workload.objects.filter(pk__in=batch).values_list("pk", "queue_id") for batch in in_batches(workload_ids))
    return dict(chain.from_iterable(rows))


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
