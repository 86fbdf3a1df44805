"""Reads about queues, limited to the projects of the actor."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db.models import Case, CharField, Count, Exists, FilteredRelation, Q, QuerySet, Subquery, Sum, Value, When
from django.db.models.functions import Coalesce

from accounts.permissions import Actor
from core.prepared import prepared
from scheduler.engine.states import HOLDING, WorkloadState
from scheduler.errors import QueueNotFound
from scheduler.models import DEFAULT_POOL_ID, PoolResource, Queue
from scheduler.selectors.pools import DEFAULT, require_pool

_LIVE = sorted({*HOLDING, WorkloadState.PENDING})
_PLACED = Q(live__state__in=sorted(HOLDING))
_PENDING = Q(live__state=WorkloadState.PENDING)


_IDLE_LIMITS = {"training_idle_at_most_s": True, "interactive_idle_at_most_s": False}
"""The columns of idle limits, each with whether it holds for preemptible work."""


def list_queues(*, actor: Actor, pool: str | None = DEFAULT) -> QuerySet[Queue]:
    """Return the projects' queues of a pool, what they hold (`gpu_held_milli` and so on), and what waits there.

    With None they are those of all pools.
    """
    queues = (
        Queue.objects.filter(project__isnull=False, project__removed_at=None)
        .select_related("project", "pool", "parent")
        .order_by("-pk")
    )
    if pool is not None:
        queues = queues.filter(pool__name=pool)
    if not actor.sees_everything:
        queues = queues.filter(project_id__in=actor.project_ids)
    return queues.alias(live=FilteredRelation("workloads", condition=Q(workloads__state__in=_LIVE))).annotate(
        gpu_held_milli=_sum("gpu_milli"),
        gpu_waiting_milli=Coalesce(Sum("live__gpu_milli", filter=_PENDING), Value(0)),
        cpu_held_millicores=_sum("cpu_millicores"),
        memory_held_bytes=_sum("memory_bytes"),
        placed_workloads=Count("live", filter=_PLACED),
        waiting_workloads=Count("live", filter=_PENDING),
    )


def get_queue(*, actor: Actor, project: str, pool: str = DEFAULT) -> Queue:
    """Return the queue of a project in a pool. Raises PoolNotFound, and QueueNotFound also to who is no member."""
    require_pool(actor=actor, name=pool)
    queue = list_queues(actor=actor, pool=pool).filter(project__name=project).first()
    if queue is None:
        raise QueueNotFound(f"There is no queue of a project called '{project}', or you are not a member of it.")
    return queue


def list_departments(*, actor: Actor, pool: str = DEFAULT) -> list[Queue]:
    """Return the departments of a pool by name, with the one above each; of these an actor sees those above them."""
    departments = {
        queue.pk: queue for queue in Queue.objects.filter(pool__name=pool, project=None).select_related("parent")
    }
    if actor.is_site_admin:
        visible = set(departments)
    else:
        own = Queue.objects.filter(pool__name=pool, project_id__in=actor.project_ids)
        visible = {pk for parent_id in own.values_list("parent_id", flat=True) for pk in _line(parent_id, departments)}
    return sorted((queue for pk, queue in departments.items() if pk in visible), key=lambda queue: queue.name)


def get_department(*, actor: Actor, name: str, pool: str = DEFAULT) -> Queue:
    """Return a department of a pool. Raises PoolNotFound and QueueNotFound."""
    require_pool(actor=actor, name=pool)
    for queue in list_departments(actor=actor, pool=pool):
        if queue.name == name:
            return queue
    raise QueueNotFound(f"There is no department called '{name}' in the pool {pool}, or you are in no project of it.")


def find_changed(
    *, actor: Actor, pool: str, changes: Sequence[tuple[str, bool, Mapping[str, Any]]]
) -> list[tuple[Queue, Any]]:
    """Return queues by the names of their project, or department, each with its change. Raises QueueNotFound."""
    require_pool(actor=actor, name=pool)
    projects = {queue.label: queue for queue in list_queues(actor=actor, pool=pool)}
    departments = {queue.name: queue for queue in list_departments(actor=actor, pool=pool)}
    changed = []
    for name, is_department, change in changes:
        queue = (departments if is_department else projects).get(name)
        if queue is None:
            kind = "department" if is_department else "project"
            raise QueueNotFound(f"There is no {kind} called '{name}' with a queue in the pool {pool}.")
        changed.append((queue, change))
    return changed


def find_idle_limited() -> QuerySet[Queue]:
    """Return the queues and departments that have an idle limit of their own. For the platform itself."""
    return Queue.objects.filter(Q(training_idle_at_most_s__isnull=False) | Q(interactive_idle_at_most_s__isnull=False))


def find_idle_limits() -> dict[tuple[str, bool], float]:
    """Return for how many seconds work may be idle, by the id of its queue and whether it is preemptible.

    A queue has its own limit, or that of the next department above that has one. For the platform itself.
    """
    if not find_idle_limited().exists():
        return {}
    queues = {row["pk"]: row for row in Queue.objects.values("pk", "parent_id", *_IDLE_LIMITS)}
    return {
        (queue_id, is_preemptible): limit_s
        for queue_id in queues
        for column, is_preemptible in _IDLE_LIMITS.items()
        if (limit_s := _inherited(queues, queue_id, column)) is not None
    }


def _inherited(queues: Mapping[str, Mapping[str, Any]], queue_id: str, column: str) -> float | None:
    above: str | None = queue_id
    while above is not None and queues[above][column] is None:
        above = queues[above]["parent_id"]
    return None if above is None else queues[above][column]


def _line(queue_id: str | None, departments: Mapping[str, Queue]) -> Iterator[str]:
    while queue_id is not None:
        yield queue_id
        queue_id = departments[queue_id].parent_id


def _sum(field: str) -> Coalesce:
    return Coalesce(Sum(f"live__{field}", filter=_PLACED), Value(0))


def find_queue(*, project_id: str, resource_id: str, pool: str = "") -> str | None:
    """Return the id of a project's queue in the pool of a resource, of one that labels divide in the pool with a name.

    None: it is missing, or the resource is divided and has no such pool.
    """
    return next(iter(_queue_in_pool_of(resource_id, pool, project_id)), None)


@prepared
def _queue_in_pool_of(resource_id: str, pool: str, project_id: str) -> QuerySet[Queue, str]:
    pools = PoolResource.objects.filter(resource_id=resource_id).order_by("label").values("pool_id")
    pool_id = Case(
        When(Exists(pools.filter(label__gt="")), then=Subquery(pools.filter(pool__name=pool)[:1])),
        default=Coalesce(Subquery(pools[:1]), Value(DEFAULT_POOL_ID)),
        output_field=CharField(),
    )
    return Queue.objects.filter(project=project_id, pool_id=pool_id).values_list("pk", flat=True)


def list_project_ids() -> list[str]:
    """Return the projects that have queues, which are all but those that were deleted and removed."""
    of_projects = Queue.objects.filter(project__isnull=False, project__removed_at=None)
    return sorted(set(of_projects.values_list("project_id", flat=True)))
