"""Which resource is in which pool, for the services that make pools, report nodes and enqueue work."""

from collections import Counter
from collections.abc import Collection, Mapping

from django.db.models import F, QuerySet

from core import tasks
from core.prepared import prepared
from scheduler.engine.states import LIVE
from scheduler.models import DEFAULT_POOL_ID, Gpu, Node, Pool, PoolResource, Workload
from scheduler.selectors.queues import list_project_ids
from scheduler.services import queue_making


def get_pool_ids(resource_ids: Collection[str]) -> Mapping[str, str]:
    """Return the pool of each resource."""
    pool_ids = dict(_pools_of(resource_ids))
    return {resource_id: pool_ids.get(resource_id, DEFAULT_POOL_ID) for resource_id in resource_ids}


@prepared
def _pools_of(resource_ids: Collection[str]) -> QuerySet[PoolResource, tuple[str, str]]:
    return PoolResource.objects.filter(resource_id__in=resource_ids).values_list("resource_id", "pool_id")


def choose_pool(*, resource_id: str, name: str) -> str:
    """Return the pool of a resource that reports GPUs; one that is new gets a pool here.

    That is the default pool while no other resource has GPUs in it. Else it is one of its own, called like it: GPUs of
    one place say nothing about what is fair in another.
    """
    queue_making.ensure_default_pool()
    # Of two resources that report at once the second must see the GPUs of the first.
    default = Pool.objects.select_for_update().get(pk=DEFAULT_POOL_ID)
    known = PoolResource.objects.filter(resource_id=resource_id).first()
    if known is not None:
        return known.pool_id
    others = Gpu.objects.filter(node__pool=default).exclude(node__resource_id=resource_id)
    pool = _named_for(name) if others.exists() else default
    move(pool, [resource_id])
    return pool.pk


def _named_for(name: str) -> Pool:
    """Return the pool called like a resource, unless others have nodes there; else a new one."""
    same = Pool.objects.filter(name=name).exclude(pk=DEFAULT_POOL_ID).first()
    if same is not None and not same.nodes.exists():
        return same
    taken = set(Pool.objects.values_list("name", flat=True))
    number = 2
    unique = name
    while unique in taken:
        unique, number = f"{name[:57]}-{number}", number + 1
    return create(unique)


def create(name: str) -> Pool:
    """Create a pool, with a queue for each project."""
    pool = Pool.objects.create(name=name)
    queue_making.ensure_queues(list_project_ids(), pool_id=pool.pk)
    return pool


def move(pool: Pool, resource_ids: Collection[str]) -> None:
    """Move resources with their nodes and their work. Who reads the database sees all of them in one pool."""
    PoolResource.objects.filter(resource_id__in=resource_ids).delete()
    PoolResource.objects.bulk_create(
        PoolResource(pool=pool, resource_id=resource_id) for resource_id in sorted(resource_ids)
    )
    nodes = Node.objects.select_for_update().filter(resource_id__in=resource_ids).order_by("pk")
    node_ids = list(nodes.values_list("pk", flat=True))
    Node.objects.filter(pk__in=node_ids).update(pool=pool, revision=F("revision") + 1)
    requeue_on(resource_ids, pool_id=pool.pk)
    tasks.enqueue_on_commit("scheduler.cycle")


def requeue_on(resource_ids: Collection[str], *, pool_id: str) -> None:
    """Put the live work of resources into the queues of a pool, where it is in another one."""
    live = Workload.objects.filter(resource_id__in=resource_ids).filter(state__in=sorted(LIVE))
    elsewhere = live.exclude(queue__pool=pool_id)
    counts = Counter(elsewhere.values_list("project_id", flat=True))
    queue_ids = queue_making.ensure_queues(sorted(counts), pool_id=pool_id) if counts else {}
    for project_id in sorted(counts):
        elsewhere.filter(project_id=project_id).update(queue_id=queue_ids[project_id], revision=F("revision") + 1)
