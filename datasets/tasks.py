"""Background tasks of datasets: ids in, one service or worker, done."""

from core.tasks import Queue, task
from datasets.services import packs
from datasets.workers import cache_hydration, collection, evictions, in_place, purges, records, scrubs, site_checks


@task("datasets.expire_uploads", queue=Queue.WATCH, every_s=300)
def expire_uploads() -> None:
    """End upload sessions whose time is over."""
    collection.expire_uploads()


@task("datasets.write_records", queue=Queue.NOTIFY, every_s=60, find_work=records.find_work)
def write_records() -> None:
    """Write what changed of the names, branches and tags of datasets into their stores."""
    records.write_records()


@task("datasets.sweep_stores", queue=Queue.TIDY, every_s=3600)
def sweep_stores() -> None:
    """Remove what killed uploads left in folder stores."""
    collection.sweep_unfinished()


@task("datasets.purge_deleted", queue=Queue.TIDY, every_s=60, find_work=purges.find_deleted)
def purge_deleted() -> None:
    """Remove the bytes of deleted datasets."""
    purges.purge_deleted()


@task("datasets.collect_packs", queue=Queue.TIDY, every_s=600)
def collect_packs() -> None:
    """Condemn, and later delete, packs that nothing refers to."""
    collection.collect()


@task("datasets.hydrate", queue=Queue.CACHE)
def hydrate(*, cached_commit_id: str) -> None:
    """Hydrate a cached commit, unless another worker does."""
    cache_hydration.hydrate_each([cached_commit_id])


@task("datasets.evict", queue=Queue.CACHE)
def evict(*, cached_commit_id: str) -> None:
    """Remove an evicted copy from its site, unless another worker does."""
    evictions.remove_each([cached_commit_id])


@task("datasets.scrub", queue=Queue.TIDY)
def scrub(*, cached_commit_id: str) -> None:
    """Compare a copy with its commit and heal it, if that is due."""
    scrubs.scrub_each([cached_commit_id])


@task("datasets.reap", queue=Queue.WATCH, every_s=2, find_work=cache_hydration.find_unattended, on_each_host=True)
def reap() -> None:
    """Enqueue work for copies that need it and have no worker."""
    cache_hydration.reap()


@task("datasets.measure_shared", queue=Queue.NOTIFY, every_s=60, on_each_host=True)
def measure_shared() -> None:
    """Work out what new copies would share with those that are on their sites."""
    site_checks.measure_shared()


@task("datasets.evict_idle", queue=Queue.WATCH, every_s=60, find_work=evictions.find_current)
def evict_idle() -> None:
    """Evict copies that were idle for too long."""
    evictions.evict_idle()


@task("datasets.schedule_scrubs", queue=Queue.WATCH, every_s=600, on_each_host=True)
def schedule_scrubs() -> None:
    """Enqueue the scrubs that are due."""
    scrubs.enqueue_due_scrubs()


@task("datasets.sweep_caches", queue=Queue.TIDY, every_s=3600, on_each_host=True)
def sweep_caches() -> None:
    """Remove files on cache sites that belong to no row."""
    evictions.sweep_leftovers()


@task("datasets.check_sites", queue=Queue.TIDY, every_s=600)
def check_sites(site_id: str | None = None) -> None:
    """Ask clusters how the sites on their volumes take snapshots, and have claims shared; of one site or of all."""
    site_checks.check_sites(site_id=site_id)


@task("datasets.check_folders", queue=Queue.TIDY, every_s=60, on_each_host=True)
def check_folders() -> None:
    """Note which folders of cache sites are away, as on disks that are not mounted, and which are back."""
    site_checks.check_folders()


@task("datasets.read_arrays", queue=Queue.TIDY, every_s=120)
def read_arrays() -> None:
    """Read the space of the storage arrays behind cache sites."""
    site_checks.read_arrays()


@task("datasets.check_pack", queue=Queue.TIDY)
def check_pack(*, dataset_id: str, pack: str) -> None:
    """Note whether a pack that could not be read is damaged."""
    packs.check_pack(dataset_id, pack)


@task("datasets.work_on_import", queue=Queue.TIDY)
def work_on_import(*, import_id: str) -> None:
    """Lead an import in place on, unless another worker does."""
    in_place.work_on_each([import_id])


@task("datasets.work_on_imports", queue=Queue.WATCH, every_s=10, find_work=in_place.find_due)
def work_on_imports() -> None:
    """Enqueue the imports in place that need work."""
    in_place.enqueue_due()
