"""Background work of datasets: what is rung for, and what ticks."""

from core.doorbell import Lane, task
from datasets.services import datasets, uploads


@task("datasets.expire_uploads", lane=Lane.WATCH, every_s=300)
def expire_uploads() -> None:
    """End upload sessions whose time is over."""
    uploads.expire_uploads()


@task("datasets.purge_deleted", lane=Lane.CACHE, every_s=60)
def purge_deleted() -> None:
    """Remove the bytes of deleted datasets."""
    datasets.purge_deleted()
