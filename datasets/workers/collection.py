"""Garbage collection: what nothing refers to leaves the store: stored trees, then their ranges, then packs.

Uploads that nobody finishes end, and what they left in folder stores is removed.

Packs leave in two steps with a long time between them.

First a pack is condemned, which only notes a date. When that has come it is looked at once more, under the lock that a
commit takes before it refers to a pack, and given up for good in the same transaction; only then is it deleted from
the store. Until its row is gone nobody can store it anew, so that no late deletion meets new bytes.
A worker may die at any point: what it was about to delete is taken over once its time is up.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import chain
from typing import TypeVar

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet

from core import clock, isolation
from datasets.adapters.opening import open_dataset_store, open_folder, open_manifests
from datasets.engine.layout import map_key, pack_key, range_key, root_key
from datasets.engine.ports import SIGNED_LIFETIME
from datasets.errors import StoreUnreachable
from datasets.models import (
    Dataset,
    ManifestRange,
    Pack,
    PackState,
    Store,
    StoredTree,
    StoreKind,
    UploadPart,
    UploadSession,
    UploadState,
)
from datasets.selectors import garbage
from datasets.selectors.garbage import Amount

log = structlog.get_logger(__name__)

# What one tick does at most.
_CONDEMNED_AT_ONCE = 1_000
_DELETED_AT_ONCE = 200
_MANIFESTS_AT_ONCE = 1_000
# A worker has this long to delete what it took; it begins no deletion in the second half, so that none is under way
# when another worker takes over.
_LEASE = timedelta(hours=1)
DELETE = "datasets.delete_packs"
DELETE_MANIFESTS = "datasets.delete_manifests"
"""The kinds of failures; items are datasets."""
_Manifest = TypeVar("_Manifest", StoredTree, ManifestRange)


def collect(*, limit: int = _DELETED_AT_ONCE) -> Amount:
    """Do a slice of all that is due; return what was deleted. May be called at any time and by many at once."""
    delete_manifests()
    spare_referenced()
    condemn_unreferenced()
    return delete_packs(take_due(limit=limit))


def delete_manifests() -> None:
    """Delete stored trees that nobody holds, then ranges of internal datasets that no stored tree has.

    Who stores a tree touches its row and those of its ranges first: for a day they are out of reach here. So no late
    deletion meets a manifest that was stored anew.
    """
    now = clock.now()
    _delete_all(_take(garbage.list_released_trees(now)), lambda tree: root_key(tree.root))
    _delete_all(_take(garbage.list_unused_ranges(now)), lambda row: range_key(row.range_id))


def spare_referenced() -> int:
    """Unmark condemned packs that are referenced again; return how many."""
    packs = Pack.objects.filter(garbage.referenced(), state=PackState.CONDEMNED)
    return packs.update(state=PackState.COMPLETE, due_at=None)


def condemn_unreferenced() -> int:
    """Condemn packs that nothing refers to; return how many."""
    now = clock.now()
    pack_ids = list(garbage.list_unreferenced(now).order_by("pk").values_list("pk", flat=True)[:_CONDEMNED_AT_ONCE])
    still = garbage.list_unreferenced(now).filter(pk__in=pack_ids)
    # One that is damaged is of use to nobody: it needs no grace, in which it would be taken for whole.
    worthless = still.filter(state=PackState.DAMAGED).update(state=PackState.CONDEMNED, due_at=now)
    grace = timedelta(days=settings.NEARLINE.pack_grace_days)
    return worthless + still.update(state=PackState.CONDEMNED, due_at=now + grace)


@transaction.atomic
def take_due(*, limit: int) -> list[Pack]:
    """Give up packs whose time has come and return them: from now on nobody but the caller may touch them."""
    now = clock.now()
    ids = list(garbage.list_due(now).order_by("due_at", "pk").values_list("pk", flat=True)[:limit])
    packs = list(garbage.list_due(now).filter(pk__in=ids).select_for_update(of=("self",)).order_by("pk"))
    # Asked only now: who has the lock sees what was committed before it.
    rows = Pack.objects.filter(pk__in=[pack.pk for pack in packs])
    spared = set(rows.filter(garbage.referenced() | garbage.uploading(now)).values_list("pk", flat=True))
    doomed = [pack for pack in packs if pack.state == PackState.DELETING or pack.pk not in spared]
    # A range that no commit has must not be known without its packs.
    ManifestRange.objects.filter(is_committed=False, packs__in=doomed).delete()
    for pack in doomed:
        pack.state, pack.due_at = PackState.DELETING, now + _LEASE
    Pack.objects.bulk_update(doomed, ["state", "due_at"])
    return doomed


def delete_packs(packs: Sequence[Pack]) -> Amount:
    """Delete what `take_due` returned, first from the store; return how much was. What fails is left for later."""
    by_dataset: defaultdict[str, list[Pack]] = defaultdict(list)
    for pack in packs:
        by_dataset[pack.dataset_id].append(pack)
    datasets = Dataset.objects.filter(pk__in=by_dataset).select_related("store").order_by("pk")
    done = isolation.for_each(DELETE, datasets, lambda dataset: _delete(dataset, by_dataset[dataset.pk]))
    deleted = [pack for packs in done for pack in packs]
    freed = [pack for pack in deleted if pack.lender_id is None and pack.origin_id is None]
    return Amount(len(freed), sum(pack.size_bytes for pack in freed))


def _delete(dataset: Dataset, packs: Sequence[Pack]) -> list[Pack]:
    mine = [pack for pack in packs if pack.due_at and clock.now() < pack.due_at - _LEASE / 2]
    try:
        # Of a pack that was imported in place there is a map; its files belong to others.
        maps = (map_key(pack.sha256) for pack in mine if pack.origin_id is not None)
        open_dataset_store(dataset).delete(chain((pack_key(pack.sha256) for pack in mine), maps))
    except StoreUnreachable:
        log.warning("packs.not_deleted", dataset_id=dataset.pk, packs=len(mine), exc_info=True)
        return []
    Pack.objects.filter(pk__in=[pack.pk for pack in mine], state=PackState.DELETING).delete()
    log.info("packs.deleted", dataset_id=dataset.pk, packs=len(mine))
    return mine


@transaction.atomic
def _take(rows: QuerySet[_Manifest]) -> list[_Manifest]:
    """Note of rows that are being deleted, and return them."""
    # What was taken and could not be deleted comes after what was never taken.
    ids = list(rows.order_by(F("due_at").asc(nulls_first=True), "pk").values_list("pk", flat=True)[:_MANIFESTS_AT_ONCE])
    taken = list(rows.filter(pk__in=ids).select_for_update(of=("self",)).order_by("pk"))
    for row in taken:
        row.due_at = clock.now() + _LEASE
    rows.model._default_manager.bulk_update(taken, ["due_at"])
    return taken


def _delete_all(rows: Sequence[_Manifest], key_of: Callable[[_Manifest], str]) -> None:
    by_dataset: defaultdict[str, list[_Manifest]] = defaultdict(list)
    for row in rows:
        by_dataset[row.dataset_id].append(row)

    def delete(dataset: Dataset) -> None:
        mine = [row for row in by_dataset[dataset.pk] if row.due_at and clock.now() < row.due_at - _LEASE / 2]
        try:
            open_manifests(dataset).delete(map(key_of, mine))
        except StoreUnreachable:
            log.warning("manifests.not_deleted", dataset_id=dataset.pk, manifests=len(mine), exc_info=True)
            return
        for row in mine:
            row.delete()

    datasets = Dataset.objects.filter(pk__in=by_dataset).select_related("store").order_by("pk")
    isolation.for_each(DELETE_MANIFESTS, datasets, delete)


def expire_uploads() -> int:
    """End the sessions whose time is over and forget the parts of all that ended; return how many ended now."""
    late = UploadSession.objects.filter(state=UploadState.OPEN, expires_at__lte=clock.now())
    ended = late.update(state=UploadState.EXPIRED)
    UploadPart.objects.exclude(upload__state=UploadState.OPEN).delete()
    return ended


def sweep_unfinished() -> int:
    """Remove what killed uploads left in folder stores, once no signed address can go on with it."""
    before = clock.now() - 4 * SIGNED_LIFETIME
    stores = Store.objects.filter(kind=StoreKind.FOLDER).order_by("pk")
    return sum(
        isolation.for_each("datasets.sweep_store", stores, lambda store: open_folder(store).sweep(before=before))
    )
