"""Which sources files may be imported from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Max, QuerySet, Sum

from accounts.models import Project
from accounts.permissions import Actor
from datasets.errors import SourceNotFound
from datasets.models import Dataset, FileSource, InPlaceImport, Pack


@dataclass(frozen=True)
class SourceUse:
    """What was imported from a source. `datasets` still read from it, in all `referenced_bytes`."""

    imports: int = 0
    size_bytes: int = 0
    referenced_bytes: int = 0
    changed_files: int = 0
    read_at: datetime | None = None
    datasets: Sequence[Dataset] = ()


def list_sources(*, actor: Actor) -> QuerySet[FileSource]:
    """Return the sources that a project of the actor may import from."""
    sources = FileSource.objects.prefetch_related("projects").order_by("pk")
    return sources if actor.is_site_admin else sources.filter(projects__in=actor.project_ids).distinct()


def get_source(*, actor: Actor, name: str) -> FileSource:
    """Return a source by name. Raises SourceNotFound."""
    source = list_sources(actor=actor).filter(name=name).first()
    if source is None:
        raise SourceNotFound(f"There is no source called '{name}', or none of your projects may import from it.")
    return source


def list_sources_for(*, actor: Actor, project: Project) -> QuerySet[FileSource]:
    """Return the sources that a project may import from, by name."""
    return list_sources(actor=actor).filter(projects=project).order_by("name")


def get_source_for(*, actor: Actor, project: Project, name: str) -> FileSource:
    """Return a source that a project may import from. Raises SourceNotFound."""
    source = list_sources_for(actor=actor, project=project).filter(name=name).first()
    if source is None:
        raise SourceNotFound(f"There is no source called '{name}' that {project.name} may import from.")
    return source


def measure_uses(sources: Sequence[FileSource]) -> Mapping[str, SourceUse]:
    """Return by id what was imported from each source. For site admins, who may see all of it."""
    imports = InPlaceImport.objects.filter(source__in=sources).order_by().values("source")
    counted = {
        row["source"]: row
        for row in imports.annotate(
            count=Count("pk"), size=Sum("size_bytes"), changed=Sum("changed_files"), read_at=Max("checked_at")
        )
    }
    packs = Pack.objects.filter(origin__source__in=sources).order_by()
    referenced = {
        (row["origin__source"], row["dataset"]): row["size"]
        for row in packs.values("origin__source", "dataset").annotate(size=Sum("size_bytes"))
    }
    datasets = Dataset.objects.select_related("project").in_bulk({dataset for _, dataset in referenced})
    uses = {}
    for source in sources:
        row = counted.get(source.pk)
        if row is not None:
            sizes = {datasets[id_]: size for (of, id_), size in referenced.items() if of == source.pk}
            uses[source.pk] = SourceUse(
                imports=row["count"],
                size_bytes=row["size"],
                referenced_bytes=sum(sizes.values()),
                changed_files=row["changed"],
                read_at=row["read_at"],
                datasets=sorted(sizes, key=lambda dataset: (dataset.project.name, dataset.name)),
            )
    return uses
