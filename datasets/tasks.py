"""Background work of datasets: what is rung for, and what ticks."""

from core.doorbell import Lane, task
from datasets.services import datasets, stores, uploads
from datasets.workers import cache_hydration, collection, evictions, scrubs


@task("datasets.expire_uploads", lane=Lane.WATCH, every_s=300)
def expire_uploads() -> None:
    """End upload sessions whose time is over."""
    uploads.expire_uploads()


@task("datasets.sweep_stores", lane=Lane.TIDY, every_s=3600)
def sweep_stores() -> None:
    """Remove what killed uploads left in folder stores."""
    stores.sweep_unfinished()


@task("datasets.purge_deleted", lane=Lane.TIDY, every_s=60)
def purge_deleted() -> None:
    """Remove the bytes of deleted datasets."""
    datasets.purge_deleted()


@task("datasets.collect_packs", lane=Lane.TIDY, every_s=600)
def collect_packs() -> None:
    """Condemn, and later delete, packs that nothing refers to."""
    collection.collect()


@task("datasets.hydrate", lane=Lane.CACHE)
def hydrate(*, cached_commit_id: str) -> None:
    """Work on a cached commit until it is ready, unless somebody is at it."""
    cache_hydration.hydrate_each([cached_commit_id])


@task("datasets.evict", lane=Lane.CACHE)
def evict(*, cached_commit_id: str) -> None:
    """Take an evicted copy off its site, unless somebody is at it."""
    evictions.remove_each([cached_commit_id])


@task("datasets.scrub", lane=Lane.TIDY)
def scrub(*, cached_commit_id: str) -> None:
    """Compare a copy with its commit and heal it, if that is due."""
    scrubs.scrub_each([cached_commit_id])


@task("datasets.reap", lane=Lane.WATCH, every_s=2)
def reap() -> None:
    """Find copies that want work and have no worker."""
    cache_hydration.reap()


@task("datasets.evict_idle", lane=Lane.WATCH, every_s=60)
def evict_idle() -> None:
    """Let copies go that nobody used for too long."""
    evictions.evict_idle()


@task("datasets.schedule_scrubs", lane=Lane.WATCH, every_s=600)
def schedule_scrubs() -> None:
    """Find copies whose daily scrub is due."""
    scrubs.ring_due_scrubs()


@task("datasets.sweep_caches", lane=Lane.TIDY, every_s=3600)
def sweep_caches() -> None:
    """Remove what lies on cache sites although no row wants it."""
    evictions.sweep_leftovers()
