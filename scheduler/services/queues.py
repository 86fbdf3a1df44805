"""Queues: one for each project in each pool, and what is guaranteed to it."""

from collections.abc import Collection, Mapping
from typing import TypedDict, Unpack

from django.db import transaction

from accounts import audit
from accounts.actor import Actor
from accounts.permissions import require_site_admin
from core import tasks
from scheduler.errors import InvalidQuota
from scheduler.models import DEFAULT_POOL_ID, Queue
from scheduler.services import pools

_LARGEST = 2**62


class Quota(TypedDict, total=False):
    """What a queue is guaranteed. None means: CPU and memory without bound; a weight in proportion to the GPU quota."""

    gpu_quota_milli: int
    cpu_quota_millicores: int | None
    memory_quota_bytes: int | None
    over_quota_weight: float | None


def ensure_queues(project_ids: Collection[str], *, pool_id: str = DEFAULT_POOL_ID) -> Mapping[str, str]:
    """Return the id of each project's queue in a pool, creating those that are missing with no GPUs of their own."""
    queues = Queue.objects.filter(pool=pool_id)
    queue_ids = dict(queues.filter(project__in=project_ids).values_list("project_id", "id"))
    missing = sorted(set(project_ids) - set(queue_ids))
    if missing:
        if pool_id == DEFAULT_POOL_ID:
            pools.ensure_default_pool()
        Queue.objects.bulk_create(
            [Queue(pool_id=pool_id, project_id=project_id) for project_id in missing], ignore_conflicts=True
        )
        queue_ids |= dict(queues.filter(project__in=missing).values_list("project_id", "id"))
    return queue_ids


def ensure_queue(*, project_id: str) -> str:
    """Return the id of a project's queue in the default pool, creating it if it is missing."""
    return ensure_queues([project_id])[project_id]


def require_set_quota(*, actor: Actor) -> None:
    """Raise PermissionDenied unless the actor may change quotas."""
    require_site_admin(actor, "set quotas")


@transaction.atomic
def set_quota(*, actor: Actor, queue: Queue, **changes: Unpack[Quota]) -> Queue:
    """Change what a queue is guaranteed; what is not named stays. The next cycle works with it. Raises InvalidQuota."""
    require_set_quota(actor=actor)
    if not all(_is_sound(name, amount) for name, amount in changes.items()):
        raise InvalidQuota("A quota or a weight is below zero, too large or not a number.")
    for name, amount in changes.items():
        setattr(queue, name, amount)
    queue.save(update_fields=list(changes))
    audit.record(actor, "scheduler.set_quota", queue, **changes)
    tasks.enqueue_on_commit("scheduler.cycle")
    return queue


def _is_sound(name: str, amount: object) -> bool:
    if amount is None:
        return name != "gpu_quota_milli"
    return isinstance(amount, int | float) and 0 <= amount <= _LARGEST
