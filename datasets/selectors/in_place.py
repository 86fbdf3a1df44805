"""What was imported in place, and how much of it still lies in its source."""

from collections.abc import Mapping, Sequence

from django.db.models import QuerySet, Sum

from accounts.actor import Actor
from accounts.permissions import require
from datasets import permissions
from datasets.errors import ImportNotFound
from datasets.models import Dataset, InPlaceImport, Pack


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


def measure_referenced(rows: Sequence[InPlaceImport]) -> Mapping[str, int]:
    """Return how many bytes of each import's packs lie in its source and not in the store. For the platform itself."""
    packs = Pack.objects.filter(origin__in=rows).order_by()
    return dict(packs.values_list("origin").annotate(Sum("size_bytes")))
