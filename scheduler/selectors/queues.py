"""Reads about queues, limited to the projects of the actor."""

from django.db.models import Count, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce

from accounts.actor import Actor
from scheduler.engine.states import HOLDING, WorkloadState
from scheduler.errors import QueueNotFound
from scheduler.models import DEFAULT_POOL_ID, Queue

_PLACED = Q(workloads__state__in=sorted(HOLDING))
_PENDING = Q(workloads__state=WorkloadState.PENDING)


def list_queues(*, actor: Actor) -> QuerySet[Queue]:
    """Return the projects' queues of the default pool, what they hold (`gpu_held_milli` and so on), and what waits."""
    queues = Queue.objects.filter(pool=DEFAULT_POOL_ID, project__isnull=False).select_related("project").order_by("-pk")
    if not actor.sees_everything:
        queues = queues.filter(project_id__in=actor.project_ids)
    return queues.annotate(
        gpu_held_milli=_sum("gpu_milli"),
        gpu_waiting_milli=Coalesce(Sum("workloads__gpu_milli", filter=_PENDING), Value(0)),
        cpu_held_millicores=_sum("cpu_millicores"),
        memory_held_bytes=_sum("memory_bytes"),
        placed_workloads=Count("workloads", filter=_PLACED),
        waiting_workloads=Count("workloads", filter=_PENDING),
    )


def get_queue(*, actor: Actor, project: str) -> Queue:
    """Return the queue of a project by the project's name. Raises QueueNotFound, also to those who are not members."""
    queue = list_queues(actor=actor).filter(project__name=project).first()
    if queue is None:
        raise QueueNotFound(f"There is no queue of a project called '{project}', or you are not a member of it.")
    return queue


def _sum(field: str) -> Coalesce:
    return Coalesce(Sum(f"workloads__{field}", filter=_PLACED), Value(0))
