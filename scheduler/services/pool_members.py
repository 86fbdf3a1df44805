"""Who belongs to a pool: resources, and projects by their queues there. The default pool is made at the first need."""

from collections import Counter
from collections.abc import Collection, Mapping

from django.db.models import F, QuerySet

from core import tasks
from core.prepared import prepared
from scheduler.engine.states import LIVE
from scheduler.models import DEFAULT_POOL_ID, Gpu, Node, Pool, PoolResource, Queue, Workload
from scheduler.selectors.queues import list_project_ids


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
    ensure_default_pool()
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
    ensure_queues(list_project_ids(), pool_id=pool.pk)
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
    queue_ids = ensure_queues(sorted(counts), pool_id=pool_id) if counts else {}
    for project_id in sorted(counts):
        elsewhere.filter(project_id=project_id).update(queue_id=queue_ids[project_id], revision=F("revision") + 1)


def ensure_queues(project_ids: Collection[str], *, pool_id: str = DEFAULT_POOL_ID) -> Mapping[str, str]:
    """Return the id of each project's queue in a pool, creating those that are missing with no GPUs of their own."""
    queue_ids = dict(_queues_of(pool_id, project_ids))
    missing = sorted(set(project_ids) - set(queue_ids))
    if missing:
        if pool_id == DEFAULT_POOL_ID:
            ensure_default_pool()
        Queue.objects.bulk_create(
            [Queue(pool_id=pool_id, project_id=project_id) for project_id in missing], ignore_conflicts=True
        )
        queue_ids |= dict(_queues_of(pool_id, missing))
    return queue_ids


@prepared
def _queues_of(pool_id: str, project_ids: Collection[str]) -> QuerySet[Queue, tuple[str, str]]:
    return Queue.objects.filter(pool=pool_id, project__in=project_ids).values_list("project_id", "id")


def ensure_queue(*, project_id: str) -> str:
    """Return the id of a project's queue in the default pool; it has one in every pool from then on."""
    for pool_id in Pool.objects.exclude(pk=DEFAULT_POOL_ID).order_by("pk").values_list("pk", flat=True):
        ensure_queues([project_id], pool_id=pool_id)
    return ensure_queues([project_id])[project_id]


def ensure_default_pool() -> None:
    """Create the default pool if it is missing."""
    Pool.objects.bulk_create([Pool(pk=DEFAULT_POOL_ID, name="default")], ignore_conflicts=True)
