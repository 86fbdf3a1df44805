"""Which sources files may be imported from."""

from django.db.models import QuerySet

from accounts.actor import Actor
from datasets.errors import SourceNotFound
from datasets.models import Dataset, FileSource


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


def get_source_for(*, actor: Actor, dataset: Dataset, name: str) -> FileSource:
    """Return a source that the project of a dataset may import from. Raises SourceNotFound."""
    source = list_sources(actor=actor).filter(name=name).first()
    if source is None or dataset.project_id not in {project.pk for project in source.projects.all()}:
        raise SourceNotFound(f"There is no source called '{name}' that {dataset.project.name} may import from.")
    return source
