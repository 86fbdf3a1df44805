"""Packs that the store does not hold as their name says: found by reading them, and whole again once a good copy came.

A pack is named by the SHA-256 of its bytes, so whoever makes the same bytes again may put them in its place, and every
commit that refers to it is whole again.
"""

from collections.abc import Iterable

import structlog

from accounts.actor import Actor
from core import clock, isolation
from core.errors import PlatformError
from datasets.adapters.opening import open_dataset_store
from datasets.engine.cache_states import CacheState
from datasets.errors import BlobMissing, ContentCorrupt, SourceFileChanged, SourceFileMissing
from datasets.models import PRESENT, CachedCommit, Dataset, Pack
from datasets.selectors.damage import find_damaged_parts
from datasets.services import caches, packs

log = structlog.get_logger(__name__)

# Why a cached copy could not be made, or not be healed, where a pack was damaged.
_CAUSES = (ContentCorrupt.code, BlobMissing.code, SourceFileChanged.code, SourceFileMissing.code)


def record_failure(dataset: Dataset, error: PlatformError) -> None:
    """Read the pack that a failure to read content names, if it names one. Raises nothing: that has failed already."""
    if not isinstance(error, ContentCorrupt | BlobMissing) or "pack" not in error.details:
        return
    try:
        check_packs(dataset, dataset.packs.filter(sha256=error.details["pack"], state__in=PRESENT))
    except PlatformError:
        log.warning("packs.not_checked", dataset_id=dataset.pk, exc_info=True)


def check_packs(dataset: Dataset, rows: Iterable[Pack]) -> list[str]:
    """Read packs whole and note which are damaged and which are whole again; return the names of the damaged.

    Copies that could not be made for want of a pack that is whole again are asked for once more.
    """
    store = open_dataset_store(dataset)
    damaged: list[str] = []
    healed: set[str] = set()
    for row in rows:
        if row.origin_id is not None and packs.take_stored(dataset, row):
            store = open_dataset_store(dataset)
        parts = find_damaged_parts(store, row.sha256, row.size_bytes)
        if not parts:
            if packs.mark_whole(row):
                healed.update(packs.rows_of_object(row).values_list("dataset_id", flat=True))
        else:
            damaged.append(row.sha256)
            if packs.mark_damaged(row, parts):
                log.warning("packs.damaged", dataset_id=dataset.pk, pack=row.sha256)
    for dataset_id in sorted(healed):
        log.info("packs.healed", dataset_id=dataset_id)
        _ask_for_copies(dataset_id)
    return damaged


def check_pack(dataset_id: str, pack: str) -> None:
    """Read one pack, which somebody could not read, as `check_packs` does. One that is gone is passed over."""
    dataset = Dataset.objects.filter(pk=dataset_id, deleted_at=None).select_related("store").first()
    if dataset is not None:
        check_packs(dataset, dataset.packs.filter(sha256=pack, state__in=PRESENT))


def check_all_packs(dataset: Dataset) -> list[str]:
    """Read every pack of a dataset as `check_packs` does: all of its bytes leave the store once."""
    return check_packs(dataset, dataset.packs.filter(state__in=PRESENT).order_by("pk").iterator())


def _ask_for_copies(dataset_id: str) -> None:
    stopped = CachedCommit.objects.filter(dataset=dataset_id, error_code__in=_CAUSES)
    stopped.filter(state=CacheState.READY).update(scrub_requested_at=clock.now())
    failed = stopped.filter(state=CacheState.FAILED).select_related("site", "commit__dataset__project")
    isolation.for_each("datasets.ask_again", failed, _ask_for_copy)


def _ask_for_copy(row: CachedCommit) -> None:
    try:
        caches.request_cache(actor=Actor.system("healing"), commit=row.commit, site=row.site)
    except PlatformError:
        # There is no space for it now. It stays failed, with its reason, until someone asks for it.
        log.info("cache.not_asked_for_again", cached_commit_id=row.pk, exc_info=True)
