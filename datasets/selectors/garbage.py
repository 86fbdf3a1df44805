"""What nothing refers to. A commit refers to packs by its ranges, for ever; an upload while it is open.

A stored tree refers to its ranges while someone holds it; a pack of another dataset to the pack that it borrows.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from django.db.models import Count, Exists, Min, OuterRef, Q, QuerySet, Sum

from core import clock
from datasets.models import (
    PRESENT,
    ManifestRange,
    Pack,
    PackState,
    StoredTree,
    TreeHold,
    UploadSession,
    UploadState,
)

_Row = TypeVar("_Row", StoredTree, ManifestRange)

# As long as an upload lives without a sign of life: before that, a pack may be part of one that goes on.
QUIET_TIME = timedelta(hours=24)


@dataclass(frozen=True)
class Amount:
    """So many packs, and their bytes."""

    packs: int
    size_bytes: int


@dataclass(frozen=True)
class GarbageReport:
    """What a collection would do now: condemn `unreferenced` packs, delete those that are `due`.

    `waiting` are condemned and not yet due; the first of them at `next_due_at`.
    """

    in_use: Amount
    unreferenced: Amount
    waiting: Amount
    due: Amount
    next_due_at: datetime | None


def is_kept() -> Q:
    """Return the condition that the dataset of a pack is there, or deleted and can be restored."""
    return Q(dataset__deleted_at=None) | Q(dataset__restore_ends_at__isnull=False)


def referenced() -> Q:
    """Return the condition that a commit or a stored tree refers to a pack, or that another dataset borrows it."""
    links = ManifestRange.packs.through.objects.filter(pack_id=OuterRef("pk"), manifestrange__is_committed=True)
    return Q(Exists(links)) | Q(Exists(Pack.objects.filter(lender=OuterRef("pk"))))


def uploading(now: datetime) -> Exists:
    """Return the condition that an upload which is open may refer to a pack: it was wanted since the upload began."""
    return Exists(
        UploadSession.objects.filter(
            dataset_id=OuterRef("dataset_id"),
            state=UploadState.OPEN,
            expires_at__gt=now,
            created_at__lte=OuterRef("touched_at"),
        )
    )


def list_unreferenced(now: datetime) -> QuerySet[Pack]:
    """Return packs to condemn. Those of a deleted dataset wait until it is restored, or go with it."""
    quiet = Pack.objects.filter(state__in=[PackState.PENDING, *PRESENT], touched_at__lt=now - QUIET_TIME)
    return quiet.filter(~referenced(), ~uploading(now), dataset__deleted_at=None)


def list_due(now: datetime) -> QuerySet[Pack]:
    """Return packs to delete: condemned long enough, or given to a worker that has fallen silent."""
    return Pack.objects.filter(
        state__in=[PackState.CONDEMNED, PackState.DELETING], due_at__lte=now, dataset__deleted_at=None
    )


def list_released_trees(now: datetime) -> QuerySet[StoredTree]:
    """Return stored trees to delete: nobody holds them, or the worker that deleted them has fallen silent."""
    return _abandoned(StoredTree.objects.filter(~Exists(TreeHold.objects.filter(tree=OuterRef("pk")))), now)


def list_unused_ranges(now: datetime) -> QuerySet[ManifestRange]:
    """Return ranges of internal datasets to delete: no stored tree has them."""
    links = StoredTree.ranges.through.objects.filter(manifestrange_id=OuterRef("pk"))
    return _abandoned(ManifestRange.objects.filter(~Exists(links), dataset__is_internal=True), now)


def report_garbage() -> GarbageReport:
    """Say what a collection would do now. Nothing happens."""
    now = clock.now()
    there = Pack.objects.filter(is_kept(), lender=None, origin=None)
    condemned = there.filter(state__in=[PackState.CONDEMNED, PackState.DELETING])
    waiting = condemned.filter(due_at__gt=now)
    unreferenced = list_unreferenced(now).filter(lender=None, origin=None)
    in_use = _sum(there.exclude(state__in=[PackState.CONDEMNED, PackState.DELETING]))
    idle = _sum(unreferenced)
    return GarbageReport(
        in_use=Amount(in_use.packs - idle.packs, in_use.size_bytes - idle.size_bytes),
        unreferenced=idle,
        waiting=_sum(waiting),
        due=_sum(list_due(now).filter(lender=None, origin=None)),
        next_due_at=waiting.aggregate(first=Min("due_at"))["first"],
    )


def _abandoned(rows: QuerySet[_Row], now: datetime) -> QuerySet[_Row]:
    quiet = rows.filter(touched_at__lt=now - QUIET_TIME, dataset__deleted_at=None)
    return quiet.filter(Q(due_at=None) | Q(due_at__lte=now))


def _sum(packs: QuerySet[Pack]) -> Amount:
    totals = packs.aggregate(packs=Count("pk"), size=Sum("size_bytes"))
    return Amount(totals["packs"], totals["size"] or 0)
