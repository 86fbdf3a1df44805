"""Pools: nodes over which quotas and fair shares are worked out."""

from collections.abc import Collection, Mapping

from django.db import transaction
from django.db.models import F

from accounts import audit
from accounts.actor import Actor
from accounts.permissions import require_site_admin
from core import tasks
from scheduler.engine.states import WorkloadState
from scheduler.errors import InvalidPool
from scheduler.models import DEFAULT_POOL_ID, Node, Pool, PoolResource, Workload


@transaction.atomic
def create_pool(*, actor: Actor, name: str, resource_ids: Collection[str]) -> Pool:
    """Move resources into a pool of their own. Its queues have no quota at first.

    Raises InvalidPool where the name is taken, or work is queued on one of the resources.
    """
    require_site_admin(actor, "create pools")
    if Pool.objects.filter(name=name).exists() or not name:
        raise InvalidPool(f"There is a pool called '{name}' already." if name else "A pool needs a name.")
    live = Workload.objects.exclude(state=WorkloadState.RELEASED)
    if live.filter(resource_id__in=resource_ids).exists():
        raise InvalidPool("Work is queued or runs on these resources, with quotas of their present pool.")
    pool = Pool.objects.create(name=name)
    PoolResource.objects.filter(resource_id__in=resource_ids).delete()
    PoolResource.objects.bulk_create(
        PoolResource(pool=pool, resource_id=resource_id) for resource_id in sorted(resource_ids)
    )
    Node.objects.filter(resource_id__in=resource_ids).update(pool=pool, revision=F("revision") + 1)
    audit.record(actor, "scheduler.create_pool", pool, resource_ids=sorted(resource_ids))
    tasks.enqueue_on_commit("scheduler.cycle")
    return pool


def get_pool_ids(resource_ids: Collection[str]) -> Mapping[str, str]:
    """Return the pool of each resource; the default pool exists from then on."""
    pool_ids = dict(PoolResource.objects.filter(resource_id__in=resource_ids).values_list("resource_id", "pool_id"))
    return {resource_id: pool_ids.get(resource_id, DEFAULT_POOL_ID) for resource_id in resource_ids}


def ensure_default_pool() -> None:
    """Create the default pool if it is missing."""
    Pool.objects.bulk_create([Pool(pk=DEFAULT_POOL_ID, name="default")], ignore_conflicts=True)
