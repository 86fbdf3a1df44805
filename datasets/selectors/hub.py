"""The hub's rows: datasets with what their newest commit says, filtered and ready to be sorted by it."""

from dataclasses import dataclass

from django.db.models import CharField, Exists, OuterRef, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Cast, Coalesce

from accounts.permissions import Actor
from datasets.engine.cache_states import CacheState
from datasets.models import Branch, CachedCommit, Dataset, Pack, PackState
from datasets.selectors import datasets

SORTS = {"new": "pk", "name": "name", "size": "head_size", "files": "head_files", "changed": "head_time"}
"""By which word of the address which field orders the rows."""

CACHED_ANYWHERE, CACHED_NOWHERE = "yes", "no"
_KINDS = 50


@dataclass(frozen=True)
class Totals:
    """How many datasets of how many projects there are to see, and what the packs of these projects take in the stores.

    Outputs and code are counted in the bytes.
    """

    datasets: int
    projects: int
    stored_bytes: int


def list_rows(*, actor: Actor, project: str, text: str, kind: str, cached: str) -> QuerySet[Dataset]:
    """Return datasets with `head_size`, `head_files` and `head_time` of their newest commit (0 and empty before it).

    `cached`: yes, no, or the name of a site that holds the newest commit; empty texts limit nothing.
    """
    heads = Branch.objects.filter(dataset=OuterRef("pk"), name=OuterRef("default_branch"))
    rows = datasets.list_datasets(actor=actor, project=project, text=text).annotate(
        head_size=Coalesce(Subquery(heads.values("head__size_bytes")[:1]), 0),
        head_files=Coalesce(Subquery(heads.values("head__files")[:1]), 0),
        # As text, because pages are found again by a value that JSON can hold.
        head_time=Coalesce(Cast(Subquery(heads.values("head__created_at")[:1]), CharField()), Value("")),
    )
    if kind:
        rows = rows.filter(kind=kind)
    if cached:
        copies = CachedCommit.objects.filter(
            state=CacheState.READY,
            commit__branches__dataset=OuterRef("pk"),
            commit__branches__name=OuterRef("default_branch"),
        )
        if cached == CACHED_NOWHERE:
            return rows.filter(~Exists(copies))
        rows = rows.filter(Exists(copies if cached == CACHED_ANYWHERE else copies.filter(site__name=cached)))
    return rows


def list_kinds(*, actor: Actor) -> list[str]:
    """Return the types that datasets have."""
    kinds = datasets.list_datasets(actor=actor).order_by("kind").values_list("kind", flat=True)
    return list(kinds.distinct()[:_KINDS])


def measure(*, actor: Actor) -> Totals:
    """Return what there is to see in all."""
    seen = datasets.list_datasets(actor=actor).order_by()
    packs = Pack.objects.filter(dataset__deleted_at=None, state=PackState.COMPLETE, lender=None, origin=None)
    if not actor.sees_everything:
        packs = packs.filter(dataset__project__in=actor.project_ids)
    return Totals(
        datasets=seen.count(),
        projects=seen.values("project").distinct().count(),
        stored_bytes=packs.aggregate(size=Sum("size_bytes"))["size"] or 0,
    )
