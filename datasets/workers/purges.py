"""Deleted datasets: their cached copies go once nobody uses them, their objects once nobody can restore them."""

import structlog
from django.db import transaction
from django.db.models import QuerySet

from accounts import audit
from accounts.permissions import Actor
from core import clock, isolation
from datasets.adapters.opening import open_dataset_store
from datasets.engine.cache_states import LIVE, CacheState
from datasets.engine.ports import SIGNED_LIFETIME
from datasets.errors import CacheInUse
from datasets.models import CachedCommit, Dataset, Pack
from datasets.selectors import caches as cache_selectors
from datasets.services import caches, datasets

log = structlog.get_logger(__name__)

PURGE = "datasets.purge"
END = "datasets.end_restore_time"
"""The kinds of failures; items are datasets."""
_PURGED_AT_A_TIME = 10


def find_deleted() -> tuple[QuerySet[CachedCommit], QuerySet[Dataset], QuerySet[Dataset]]:
    """Return the copies of deleted datasets, the datasets that can be restored no more, and those to be purged."""
    leaving = LIVE - {CacheState.EVICTING}
    copies = cache_selectors.of_deleted().filter(state__in=leaving, holds=None)
    over = Dataset.objects.filter(restore_ends_at__lte=clock.now())
    unreachable_since = clock.now() - SIGNED_LIFETIME
    waiting = Dataset.objects.filter(deleted_at__lt=unreachable_since, restore_ends_at=None, purged_at=None)
    held = CachedCommit.objects.filter(state__in=LIVE).values("dataset_id")
    lending = Pack.objects.filter(lender__isnull=False).values("lender__dataset_id")
    return copies, over, waiting.exclude(pk__in=held).exclude(pk__in=lending)


def purge_deleted() -> int:
    """Let the cached copies of deleted datasets go, and remove the objects of those deleted for good.

    That is what a dataset is once its time to be restored is over. A copy that a job still reads is left to it, and
    tried again at the next tick. Objects stay until all copies are gone and no address that
    was signed before the deletion is good any more, or what is sent to it would be left behind. Returns how many
    datasets are done.
    """
    copies, over, free = find_deleted()
    isolation.for_each("datasets.clear_copy", copies.order_by("pk"), _clear_copy)
    # Its own step: once it is committed nobody can restore the dataset, and only then its objects are deleted.
    actor = Actor.system("deleted datasets")
    isolation.for_each(END, over.order_by("pk"), lambda dataset: datasets.delete_for_good(actor=actor, dataset=dataset))
    done = 0

    def purge(dataset: Dataset) -> None:
        nonlocal done
        if done < _PURGED_AT_A_TIME:
            _purge(dataset)
            done += 1

    isolation.for_each(PURGE, free.select_related("store").order_by("pk"), purge)
    return done


def _purge(dataset: Dataset) -> None:
    store = open_dataset_store(dataset)
    store.delete(blob.key for blob in store.list_blobs(""))
    with transaction.atomic():
        if Dataset.objects.filter(pk=dataset.pk, purged_at=None).update(purged_at=clock.now()):
            dataset.stored_trees.all().delete()
            dataset.ranges.all().delete()
            dataset.packs.all().delete()
            dataset.imports.all().delete()
            audit.record(Actor.system("deleted datasets"), "datasets.purge", dataset)
    log.info("dataset.purged", dataset_id=dataset.id)


def _clear_copy(copy: CachedCommit) -> None:
    system = Actor.system("deleted datasets")
    if copy.is_pinned:
        caches.set_pinned(actor=system, cached_commit_id=copy.pk, is_pinned=False)
    try:
        caches.uncache(actor=system, cached_commit_id=copy.pk)
    except CacheInUse:
        log.info("dataset.purge_waits", cached_commit_id=copy.pk)
