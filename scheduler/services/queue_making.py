"""Makes the queues and the default pool that projects, pools and new work need."""

from collections.abc import Collection, Mapping

from django.db.models import QuerySet

from core import tasks
from core.prepared import prepared
from scheduler.models import DEFAULT_POOL_ID, Pool, Queue
from scheduler.selectors.snapshots import QUEUES


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
        tasks.read_anew(QUEUES)
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
