"""What projects and datasets take in their stores, and how much equal content saves.

Counted are packs that are there, and those that are being sent. Those of deleted datasets count as long as
these can be restored. Packs that nothing needs leave by themselves and are told apart; borrowed ones are counted where
they lie, and those whose content lies in a source are not.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Max, Q, QuerySet, Sum

from accounts.models import Project
from accounts.permissions import Actor, require
from core import clock
from core.units import format_bytes, parse_bytes
from datasets import permissions
from datasets.engine.ports import SIGNED_LIFETIME
from datasets.models import PRESENT, Dataset, Pack, PackState, StorageLimit
from datasets.selectors.garbage import QUIET_TIME, is_kept, referenced

OUTPUTS = "outputs and code of jobs"
_LARGEST = 20


@dataclass(frozen=True)
class StoragePart:
    """What one dataset of a project stores, or (without a dataset) its stored trees."""

    name: str
    stored_bytes: int
    is_dataset: bool
    is_deleted: bool = False

    @property
    def label(self) -> str:
        """The name, and whether it is of a deleted dataset."""
        return f"{self.name} (deleted, can be restored)" if self.is_deleted else self.name


@dataclass(frozen=True)
class ProjectStorage:
    """What a project stores. `limit_bytes` None: as much as it likes. `parts`: the largest, the largest first.

    `unused_bytes` of it are of uploads that no commit uses. They leave by `freed_at`, unless one comes to use them.
    """

    project_name: str
    used_bytes: int
    unused_bytes: int
    freed_at: datetime | None
    leaving_bytes: int
    limit_bytes: int | None
    parts: Sequence[StoragePart]

    @property
    def limit_text(self) -> str:
        """The limit as people may write it, exactly; empty without one."""
        if self.limit_bytes is None:
            return ""
        text = format_bytes(self.limit_bytes)
        return text if parse_bytes(text) == self.limit_bytes else str(self.limit_bytes)

    @property
    def percent(self) -> int | None:
        """How much of the limit is used; None without a limit, more than 100 beyond it."""
        if self.limit_bytes is None:
            return None
        return self.used_bytes * 100 // self.limit_bytes if self.limit_bytes else 100


@dataclass(frozen=True)
class DatasetStorage:
    """What a dataset stores. `version_bytes` is what its commits would take if each were a copy.

    `referenced_bytes` lie in sources, and not in the store.
    """

    stored_bytes: int
    borrowed_bytes: int
    commits: int
    version_bytes: int
    referenced_bytes: int = 0

    @property
    def factor(self) -> float | None:
        """How many times more the copies would take; None where nothing is stored."""
        held = self.stored_bytes + self.borrowed_bytes + self.referenced_bytes
        return self.version_bytes / held if held else None


def measure_project(*, actor: Actor, project: Project) -> ProjectStorage:
    """Return what a project stores."""
    require(actor, permissions.VIEW, project.pk)
    return _measure([project])[0]


def measure_projects(*, actor: Actor, projects: Collection[Project]) -> Sequence[ProjectStorage]:
    """Return what each of some projects stores, in their order."""
    for project in projects:
        require(actor, permissions.VIEW, project.pk)
    return _measure(projects)


def measure_dataset(*, actor: Actor, dataset: Dataset) -> DatasetStorage:
    """Return what a dataset stores, and what it would without sharing."""
    require(actor, permissions.VIEW, dataset.project_id)
    packs = counted(clock.now()).filter(dataset=dataset)
    sums = packs.aggregate(
        own=Sum("size_bytes", filter=Q(lender=None)), borrowed=Sum("size_bytes", filter=Q(lender__isnull=False))
    )
    versions = dataset.commits.aggregate(commits=Count("pk"), size=Sum("size_bytes"))
    mapped = dataset.packs.filter(origin__isnull=False, state__in=PRESENT).aggregate(size=Sum("size_bytes"))
    return DatasetStorage(
        sums["own"] or 0, sums["borrowed"] or 0, versions["commits"], versions["size"] or 0, mapped["size"] or 0
    )


def counted(now: datetime) -> QuerySet[Pack]:
    """Return the packs that count: there, or on their way by an address that is still good."""
    on_their_way = Q(state=PackState.PENDING, touched_at__gt=now - SIGNED_LIFETIME)
    return Pack.objects.filter(is_kept(), Q(state__in=PRESENT) | on_their_way, origin=None)


def used_bytes(project_id: str) -> int:
    """Return what a project stores. For the platform itself."""
    packs = counted(clock.now()).filter(dataset__project=project_id, lender=None)
    return packs.aggregate(size=Sum("size_bytes"))["size"] or 0


def measure_unused(project_ids: Collection[str]) -> Mapping[str, tuple[int, datetime]]:
    """Return for projects with uploads that no commit uses what these take, and by when. For the platform itself."""
    packs = counted(clock.now()).filter(~referenced(), dataset__project__in=project_ids, lender=None)
    sums = packs.order_by().values_list("dataset__project").annotate(Sum("size_bytes"), Max("touched_at"))
    return {project_id: (size, touched_at + QUIET_TIME) for project_id, size, touched_at in sums}


def largest_parts(project_ids: Collection[str]) -> Mapping[str, Sequence[StoragePart]]:
    """Return for each project what takes most of it. For the platform itself."""
    packs = counted(clock.now()).filter(dataset__project__in=project_ids, lender=None)
    columns = ("dataset__project", "dataset__is_internal", "dataset__name", "dataset__restore_ends_at")
    rows = packs.values_list(*columns).annotate(size=Sum("size_bytes"))
    parts: dict[str, list[StoragePart]] = {id_: [] for id_ in project_ids}
    for project_id, is_internal, name, until, size in rows.order_by("-size", *columns):
        what = OUTPUTS if is_internal else name
        parts[project_id].append(StoragePart(what, size, not is_internal, is_deleted=until is not None))
    return parts


def _measure(projects: Collection[Project]) -> list[ProjectStorage]:
    ids = [project.pk for project in projects]
    parts, unused = largest_parts(ids), measure_unused(ids)
    limits = dict(StorageLimit.objects.filter(project__in=ids).values_list("project_id", "limit_bytes"))
    condemned = Pack.objects.filter(
        dataset__project__in=ids, lender=None, origin=None, state__in=[PackState.CONDEMNED, PackState.DELETING]
    )
    dropped = Pack.objects.filter(~is_kept(), dataset__project__in=ids, lender=None, origin=None)
    leaving = dict((condemned | dropped).order_by().values_list("dataset__project").annotate(Sum("size_bytes")))
    return [
        ProjectStorage(
            project_name=project.name,
            used_bytes=sum(part.stored_bytes for part in parts[project.pk]),
            unused_bytes=unused.get(project.pk, (0, None))[0],
            freed_at=unused.get(project.pk, (0, None))[1],
            leaving_bytes=leaving.get(project.pk, 0),
            limit_bytes=limits.get(project.pk),
            parts=parts[project.pk][:_LARGEST],
        )
        for project in projects
    ]
