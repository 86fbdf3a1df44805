"""What was imported in place, how far that is, and how much of it still lies in its source."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count, Max, Q, QuerySet, Sum

from accounts.permissions import Actor, require
from core import clock
from datasets import permissions
from datasets.errors import ImportNotFound
from datasets.models import (
    WORKING,
    CacheSite,
    Commit,
    Dataset,
    ImportState,
    InPlaceImport,
    ManifestRange,
    Pack,
    SourceKind,
)
from datasets.selectors.trees import TreeReader


@dataclass(frozen=True)
class ImportView:
    """An import, and how many of its bytes lie in the source and not in the store."""

    row: InPlaceImport
    referenced_bytes: int

    @property
    def done_bytes(self) -> int:
        """How much of `work_bytes` is done."""
        if self.row.state == ImportState.PROMOTING:
            return max(0, self.row.work_bytes - self.referenced_bytes)
        return self.row.read_bytes

    @property
    def percent(self) -> int:
        """The same in whole percents; 100 only when nobody works on it any more."""
        if self.row.state not in WORKING:
            return 100
        return min(99, self.done_bytes * 100 // self.row.work_bytes) if self.row.work_bytes else 0

    @property
    def rate_bytes_s(self) -> float | None:
        """Bytes a second since the work began; None when there is nothing to tell it from."""
        if self.row.started_at is None or not self.done_bytes or self.row.state not in WORKING:
            return None
        return self.done_bytes / max(0.001, (clock.now() - self.row.started_at).total_seconds())

    @property
    def eta_s(self) -> float | None:
        """Seconds until the work is done at this rate; None when nothing is known."""
        rate = self.rate_bytes_s
        return None if rate is None else max(0, self.row.work_bytes - self.done_bytes) / rate


def list_imports(*, actor: Actor, dataset: Dataset) -> QuerySet[InPlaceImport]:
    """Return the imports in place into a dataset, newest first."""
    require(actor, permissions.VIEW, dataset.project_id)
    return InPlaceImport.objects.filter(dataset=dataset).select_related("source", "commit").order_by("-pk")


def get_import(*, actor: Actor, import_id: str) -> InPlaceImport:
    """Return an import in place. Raises ImportNotFound."""
    rows = InPlaceImport.objects.select_related("source", "commit", "dataset__project", "dataset__store")
    row = rows.filter(pk=import_id, dataset__deleted_at=None).first()
    if row is None or actor.level_in(row.dataset.project_id) is None:
        raise ImportNotFound("There is no such import, or you are not a member of its project.")
    return row


def view_imports(rows: Sequence[InPlaceImport]) -> list[ImportView]:
    """Return how far each import is, by one statement for all of them. For the platform itself."""
    referenced = measure_referenced(rows)
    return [ImportView(row, referenced.get(row.pk, 0)) for row in rows]


def measure_referenced(rows: Sequence[InPlaceImport]) -> Mapping[str, int]:
    """Return how many bytes of each import's packs lie in its source and not in the store. For the platform itself."""
    packs = Pack.objects.filter(origin__in=rows).order_by()
    return dict(packs.values_list("origin").annotate(Sum("size_bytes")))


def list_referring(dataset: Dataset, commits: Collection[Commit]) -> set[str]:
    """Return the ids of those commits that have content in a source. The roots are read where there is such content."""
    mapped = ManifestRange.objects.filter(dataset=dataset, packs__origin__isnull=False)
    ranges = set(mapped.values_list("range_id", flat=True))
    if not ranges:
        return set()
    reader = TreeReader(dataset)
    return {commit.pk for commit in commits if any(row.range_id in ranges for row in reader.read_root(commit.root))}


def find_only_site(commit: Commit) -> CacheSite | None:
    """Return the site on whose volume, and nowhere else, content of a commit lies; None for all other commits."""
    on_volumes = Pack.objects.filter(dataset=commit.dataset_id, origin__source__kind=SourceKind.SITE)
    ranges = dict(on_volumes.values_list("ranges__range_id", "origin__source__location"))
    if not ranges:
        return None
    rows = TreeReader(commit.dataset).read_root(commit.root)
    site_id = next((ranges[row.range_id] for row in rows if row.range_id in ranges), "")
    return CacheSite.objects.filter(name=site_id.removeprefix("site://")).first()


def stamps_of_imports(dataset_ids: Collection[str]) -> Mapping[str, str]:
    """Return for each of these datasets a stamp that is another one whenever an import into it got on."""
    rows = InPlaceImport.objects.filter(dataset__in=dataset_ids).order_by().values("dataset")
    totals = rows.annotate(
        working=Count("pk", filter=Q(state__in=WORKING)), read=Sum("read_bytes"), checked_at=Max("checked_at")
    )
    packs = Pack.objects.filter(origin__dataset__in=dataset_ids).order_by().values_list("origin__dataset")
    left = dict(packs.annotate(Sum("size_bytes")))
    stamps = {
        row["dataset"]: f"{row['working']} {row['read']} {row['checked_at']} {left.get(row['dataset'])}"
        for row in totals
    }
    return {key: stamps.get(key, "") for key in dataset_ids}
