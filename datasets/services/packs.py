"""Which packs the store holds for us, whether it holds them whole, and whether it may hold more for their project.

Every change of a pack's state is here or in `collection`.

A pack that nothing refers to is condemned and later deleted; whoever wants one says so here first. What is told here
is true afterwards too, however long the caller takes: a wanted pack is out of the collection's reach for a day, and a
commit refers to packs under the same lock under which they are given up.

A pack is named by the SHA-256 of its bytes, which tells when it is read whether it is damaged. So whoever makes the
same bytes again may put them in its place, and every commit that refers to it is whole again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import structlog
from django.db import transaction
from django.db.models import Q, QuerySet

from accounts.permissions import Actor
from core import clock, isolation, orm
from core.errors import PlatformError
from core.units import count_of, format_bytes
from datasets.adapters.opening import open_dataset_store, open_manifests
from datasets.engine.cache_states import CacheState
from datasets.engine.layout import map_key, pack_key
from datasets.errors import (
    BlobMissing,
    BodyRefused,
    ContentCorrupt,
    PackLeaving,
    PackMissing,
    SourceFileChanged,
    SourceFileMissing,
    StorageLimitReached,
)
from datasets.models import PRESENT, CachedCommit, Dataset, InPlaceImport, ManifestRange, Pack, PackState, StorageLimit
from datasets.selectors import storage
from datasets.selectors.damage import find_damaged_parts
from datasets.services import caches
from nearline.content.packs import Pack as PackBytes

log = structlog.get_logger(__name__)

# Why a cached copy could not be made, or not be healed, where a pack was damaged.
_CAUSES = (ContentCorrupt.code, BlobMissing.code, SourceFileChanged.code, SourceFileMissing.code)
_NAMED_PARTS = 3


class RangesForgotten(Exception):
    """Ranges of a tree that was checked are not known any more; it has to be checked again."""


class ClaimedPacks(NamedTuple):
    """Rows of packs by name, and the names of those that nobody had ever claimed: the store cannot have these."""

    rows: dict[str, Pack]
    new: Collection[str]


def require_some_space(dataset: Dataset) -> None:
    """Raise StorageLimitReached when the dataset's project can store nothing more.

    Outputs of jobs are stored beyond the limit, so that no job loses what it made; uploads wait until there is space
    again.
    """
    limit = StorageLimit.objects.filter(project=dataset.project_id).first()
    if limit is not None and (used := storage.used_bytes(dataset.project_id)) >= limit.limit_bytes:
        raise _reached(limit, used, needed=0)


def require_space(dataset: Dataset, sizes: Mapping[str, int]) -> None:
    """Raise StorageLimitReached unless the project may store these packs, by name; those that it has cost nothing.

    Called in the transaction that claims them, so that two uploads at once do not share the same space.
    """
    limit = StorageLimit.objects.select_for_update().filter(project=dataset.project_id).first()
    if limit is None:
        return
    known = storage.counted(clock.now()).filter(dataset=dataset, sha256__in=sizes)
    needed = sum(sizes.values()) - sum(sizes[name] for name in known.values_list("sha256", flat=True))
    used = storage.used_bytes(dataset.project_id)
    if needed and used + needed > limit.limit_bytes:
        raise _reached(limit, used, needed=needed)


def claim(dataset: Dataset, sizes: Mapping[str, int]) -> ClaimedPacks:
    """Return the rows of packs that someone has or means to store; new ones and condemned ones are pending.

    Raises BodyRefused when a whole pack is known with another size, PackLeaving while one is being deleted.
    """
    now = clock.now()
    rows = Pack.objects.filter(dataset=dataset, sha256__in=sizes)
    rows.filter(state__in=[PackState.PENDING, *PRESENT]).update(touched_at=now)
    # Whether the store still has it is looked up anew.
    rows.filter(state=PackState.CONDEMNED).update(state=PackState.PENDING, due_at=None, touched_at=now)
    missing = sizes.keys() - set(rows.values_list("sha256", flat=True))
    fresh = [Pack(dataset=dataset, sha256=sha256, size_bytes=sizes[sha256]) for sha256 in sorted(missing)]
    Pack.objects.bulk_create(fresh, ignore_conflicts=True)
    existing = {pack.sha256: pack for pack in rows.exclude(state__in=[PackState.CONDEMNED, PackState.DELETING])}
    mismatched = [sha256 for sha256, pack in existing.items() if pack.size_bytes != sizes[sha256]]
    for pack in [existing[sha256] for sha256 in mismatched if existing[sha256].state == PackState.DAMAGED]:
        # It may be gone, so that nobody knows its size. It is read whole before it counts.
        pack.size_bytes = sizes[pack.sha256]
        rows.filter(pk=pack.pk, state=PackState.DAMAGED).update(size_bytes=pack.size_bytes)
        mismatched.remove(pack.sha256)
    if mismatched:
        raise BodyRefused(f"The pack {mismatched[0][:12]} has another size than you say.", pack=mismatched[0])
    if leaving := sorted(sizes.keys() - existing.keys()):
        raise PackLeaving(f"The pack {leaving[0][:12]} is just being removed from the store.", packs=leaving)
    return ClaimedPacks(existing, missing)


def mark_complete(packs: Iterable[Pack]) -> None:
    """Note that pending packs were seen in the store, whole."""
    # By row: one that was given up meanwhile, and is wanted again, has to be seen again.
    ids = [pack.pk for pack in packs]
    if ids:
        Pack.objects.filter(pk__in=ids, state=PackState.PENDING).update(state=PackState.COMPLETE)


def store_pack(dataset: Dataset, pack: PackBytes) -> Pack:
    """Bring a pack into the store unless it is there, and return its row.

    Raises PackLeaving, StorageLimitReached and StoreUnreachable.
    """
    data = pack.data
    sizes = {pack.name: len(data)}
    with transaction.atomic():
        require_space(dataset, sizes)
        row = claim(dataset, sizes).rows[pack.name]
    if row.state != PackState.COMPLETE:
        open_dataset_store(dataset).put(pack_key(pack.name), data)
        confirm_pack(dataset, row)
    return row


def confirm_pack(dataset: Dataset, row: Pack) -> None:
    """Vouch for a pack that was just put; one that was damaged is read whole."""
    mark_complete([row])
    if row.state == PackState.DAMAGED:
        check_packs(dataset, [row])


def mark_mapped(pack: Pack, origin: InPlaceImport) -> None:
    """Note that the store has a map of a pack that was just claimed, whose content lies in the origin's source."""
    rows = Pack.objects.filter(pk=pack.pk, state__in=[PackState.PENDING, PackState.DAMAGED], lender=None)
    rows.update(origin=origin)
    mark_complete([pack])


def take_stored(dataset: Dataset, row: Pack) -> bool:
    """Forget the map of a pack whose bytes are in the store, all of them right; return whether that is so."""
    own = open_manifests(dataset)
    if own.stat(pack_key(row.sha256)) is None or find_damaged_parts(own, row.sha256, row.size_bytes):
        return False
    # Readers that find no map read the pack itself, so whoever dies in between leaves work, and nothing behind.
    own.delete([map_key(row.sha256)])
    Pack.objects.filter(pk=row.pk).update(origin=None)
    row.origin = None
    return True


def mark_damaged(pack: Pack, parts: Sequence[tuple[int, int]]) -> bool:
    """Note that the store does not hold a pack as its name says, in these parts; return whether that is news."""
    rows = rows_of_object(pack)
    is_news = rows.filter(state=PackState.COMPLETE).update(state=PackState.DAMAGED) > 0
    rows.filter(state=PackState.DAMAGED).update(damaged_parts=parts)
    return is_news


def mark_whole(pack: Pack) -> bool:
    """Note that a damaged pack was read and is what its name says; return whether that is news."""
    rows = rows_of_object(pack).filter(state=PackState.DAMAGED)
    return rows.update(state=PackState.COMPLETE, damaged_parts=[]) > 0


def rows_of_object(pack: Pack) -> QuerySet[Pack]:
    """Return all rows that stand for the same object in the store: the lender's and those that borrow it."""
    lender = pack.lender_id or pack.pk
    return Pack.objects.filter(Q(pk=lender) | Q(lender=lender))


@transaction.atomic
def borrow(dataset: Dataset, lender: Dataset, names: Iterable[str]) -> None:
    """Let a dataset refer to packs of another one of its project where they are. It keeps those that it has itself.

    Raises PackMissing unless the lender has all of them, PackLeaving while one of the dataset's own is being deleted.
    """
    for batch in orm.in_batches(sorted(names)):
        lenders = Pack.objects.filter(dataset=lender, sha256__in=batch)
        lock_present(list(lenders))
        lent = {pack.sha256: pack for pack in lenders}
        if missing := sorted(set(batch) - lent.keys()):
            raise PackMissing(f"The store misses {count_of(len(missing), 'pack')} of this tree.", packs=missing)
        now = clock.now()
        rows = Pack.objects.filter(dataset=dataset, sha256__in=batch)
        known = set(rows.values_list("sha256", flat=True))
        fresh = [
            Pack(dataset=dataset, sha256=name, size_bytes=lent[name].size_bytes, state=PackState.CONDEMNED)
            for name in sorted(set(batch) - known)
        ]
        Pack.objects.bulk_create(fresh, ignore_conflicts=True)
        # Whether the bytes of such a row are in the store is unknown; the lender's are.
        unsure = rows.filter(state__in=[PackState.PENDING, PackState.CONDEMNED])
        borrowed = list(unsure.select_for_update().order_by("pk"))
        for row in borrowed:
            row.lender = lent[row.sha256]
            row.state, row.damaged_parts, row.due_at = row.lender.state, row.lender.damaged_parts, None
        Pack.objects.bulk_update(borrowed, ["lender", "state", "damaged_parts", "due_at"])
        rows.update(touched_at=now)
        if leaving := sorted(rows.filter(state=PackState.DELETING).values_list("sha256", flat=True)):
            raise PackLeaving(f"The pack {leaving[0][:12]} is just being removed from the store.", packs=leaving)


def lock_present(packs: Collection[Pack]) -> None:
    """Let these packs stay as they are until the transaction ends. Raises PackMissing unless all are present."""
    names = {pack.pk: pack.sha256 for pack in packs}
    for batch in orm.in_batches(sorted(names)):
        rows = Pack.objects.select_for_update().filter(pk__in=batch, state__in=PRESENT).order_by("pk")
        for id_ in list(rows.values_list("pk", flat=True)):
            del names[id_]
        Pack.objects.filter(pk__in=batch).update(touched_at=clock.now())
    if names:
        raise PackMissing(f"{count_of(len(names), 'pack')} left the store meanwhile.", packs=sorted(names.values()))


def hold_ranges(dataset: Dataset, range_ids: Sequence[str]) -> None:
    """Make ranges part of a commit, in its transaction: from then on their packs stay as long as the dataset does.

    Raises PackMissing, and RangesForgotten when a range was forgotten after it was checked.
    """
    known: dict[str, bool] = {}
    for batch in orm.in_batches(range_ids):
        rows = ManifestRange.objects.filter(dataset=dataset, range_id__in=batch)
        known.update(rows.values_list("pk", "is_committed"))
    if len(known) != len(range_ids):
        raise RangesForgotten
    fresh = list(orm.in_batches(id_ for id_, is_committed in known.items() if not is_committed))
    lock_present({pack for batch in fresh for pack in Pack.objects.filter(ranges__in=batch)})
    for batch in fresh:
        # Looked at after the lock: who gives packs up forgets their ranges in the same transaction.
        if ManifestRange.objects.filter(pk__in=batch).update(is_committed=True) != len(batch):
            raise RangesForgotten


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
        if row.origin_id is not None and take_stored(dataset, row):
            store = open_dataset_store(dataset)
        parts = find_damaged_parts(store, row.sha256, row.size_bytes)
        if not parts:
            if mark_whole(row):
                healed.update(rows_of_object(row).values_list("dataset_id", flat=True))
        else:
            damaged.append(row.sha256)
            if mark_damaged(row, parts):
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


def _reached(limit: StorageLimit, used: int, *, needed: int) -> StorageLimitReached:
    parts = storage.largest_parts([limit.project_id])[limit.project_id][:_NAMED_PARTS]
    most = ", ".join(f"{part.label} ({format_bytes(part.stored_bytes)})" for part in parts)
    # In the midst of an upload that is what it has sent so far.
    unused = None if needed else storage.measure_unused([limit.project_id]).get(limit.project_id)
    return StorageLimitReached(
        f"{limit.project.name} stores {format_bytes(used)} and may store {format_bytes(limit.limit_bytes)}."
        + (f" This needs {format_bytes(needed)} more." if needed else "")
        + (f" Most is taken by {most}." if most else "")
        + (f" {_say_unused(*unused)}" if unused else ""),
        used_bytes=used,
        limit_bytes=limit.limit_bytes,
        needed_bytes=needed,
        largest=[{"name": part.name, "is_dataset": part.is_dataset, "bytes": part.stored_bytes} for part in parts],
    )


def _say_unused(size_bytes: int, until: datetime) -> str:
    when = f"{until:%Y-%m-%d %H:%M} UTC"
    return f"{format_bytes(size_bytes)} are of uploads that no commit uses; they are freed by {when}."
