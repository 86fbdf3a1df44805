"""Reads about workloads, limited to the projects of the actor."""

from django.db.models import QuerySet

from accounts.actor import Actor
from accounts.selectors import get_project
from scheduler.engine.states import WorkloadState
from scheduler.models import Workload


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
