"""Reads about datasets, limited to the projects that the actor may see."""

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import F, Prefetch, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from accounts.permissions import Actor, require
from accounts.selectors import get_project
from core import clock
from datasets import permissions
from datasets.engine.names import parse_reference
from datasets.errors import DatasetNotFound, DeletedDatasetNotFound, StoreNotFound
from datasets.models import PRESENT, Branch, Commit, Dataset, Query, Store
from datasets.selectors import commits, queries


@dataclass(frozen=True)
class ResolvedCommit:
    """What a dataset reference leads to. `query`: what is to be asked of the commit; None: the commit is meant."""

    dataset: Dataset
    commit: Commit
    query: Query | None = None


def list_datasets(*, actor: Actor, project: str = "", text: str = "") -> QuerySet[Dataset]:
    """Return the datasets that the actor may see, of one project and containing `text` when these are given."""
    datasets = _visible(actor)
    if project:
        datasets = datasets.filter(project=get_project(actor=actor, name=project))
    if text:
        datasets = datasets.filter(Q(name__icontains=text) | Q(description__icontains=text))
    return datasets.order_by("-pk")


def get_dataset(*, actor: Actor, project: str, name: str) -> Dataset:
    """Return a dataset. Raises DatasetNotFound, also to who is not in its project; else it says if it was deleted."""
    dataset = _visible(actor).filter(project__name=project, name=name).first()
    if dataset is None:
        deleted = _restorable().filter(project__name=project, name=name).order_by("-pk").first()
        if deleted is not None and actor.level_in(deleted.project_id) is not None:
            until = f"{deleted.restore_ends_at:%Y-%m-%d %H:%M} UTC"
            raise DatasetNotFound(
                f"{project}/{name} is deleted. Until {until} an admin of {project} can restore it: "
                f"`nearline data restore {project}/{name}`."
            )
        raise DatasetNotFound(f"There is no dataset {project}/{name}, or you are not a member of its project.")
    require(actor, permissions.VIEW, dataset.project_id)
    return dataset


def list_deleted(*, actor: Actor, project: str = "") -> QuerySet[Dataset]:
    """Return the deleted datasets that the actor may restore, of one project where it is given.

    `stored_bytes` is what each takes in the store until then.
    """
    datasets = _restorable()
    if not actor.sees_everything:
        may_restore = [id_ for id_, level in actor.levels.items() if level >= permissions.DELETE.level]
        datasets = datasets.filter(project__in=may_restore)
    if project:
        datasets = datasets.filter(project=get_project(actor=actor, name=project))
    own = Q(packs__lender=None, packs__state__in=PRESENT)
    return datasets.annotate(stored_bytes=Coalesce(Sum("packs__size_bytes", filter=own), 0)).order_by("-pk")


def get_deleted(*, actor: Actor, dataset_id: str) -> Dataset:
    """Return a deleted dataset that can be restored. Raises DeletedDatasetNotFound."""
    dataset = _restorable().filter(pk=dataset_id).first()
    if dataset is None or actor.level_in(dataset.project_id) is None:
        raise DeletedDatasetNotFound(f"There is no deleted dataset {dataset_id} that can be restored.")
    require(actor, permissions.DELETE, dataset.project_id)
    return dataset


def resolve(actor: Actor, reference: str) -> ResolvedCommit:
    """Return the commit that `project/dataset[@branch|tag|commit][:query]` names, and the query.

    `selections.resolve` returns what the query selects. Raises InvalidReference, DatasetNotFound, ReferenceNotFound,
    AmbiguousReference, EmptyBranch and QueryNotFound.
    """
    parsed = parse_reference(reference)
    dataset = get_dataset(actor=actor, project=parsed.project, name=parsed.dataset)
    if parsed.query:
        query = queries.get_query(actor, dataset, parsed.query)
        return ResolvedCommit(dataset, queries.get_source(actor, query, parsed.ref), query)
    return ResolvedCommit(dataset, commits.get_commit(actor, dataset, parsed.ref))


def get_base(actor: Actor, dataset: Dataset, ref: str) -> Commit:
    """Return what a commit of a dataset is compared with: another one of it, or what a whole reference names."""
    return resolve(actor, ref).commit if "/" in ref else commits.get_commit(actor, dataset, ref)


def references_of(*, actor: Actor, commit_ids: Collection[str]) -> dict[str, str]:
    """Return what names each of these commits for good: `project/dataset@commit`. Raises DatasetNotFound."""
    rows = Commit.objects.filter(pk__in=commit_ids, dataset__in=_visible(actor).values("pk"))
    rows = rows.select_related("dataset__project").order_by("pk")
    references = {row.pk: f"{row.dataset.project.name}/{row.dataset.name}@{row.pk}" for row in rows}
    if len(references) < len(set(commit_ids)):
        raise DatasetNotFound("A dataset is gone, or you are not a member of its project.")
    return references


def newest_commit_of(dataset: Dataset) -> Commit | None:
    """Return the head of the default branch of a dataset that this module found; no query is made."""
    heads: list[Branch] = dataset.default_heads  # type: ignore[attr-defined]  # the prefetch of `_visible` puts it there
    return heads[0].head if heads else None


def _restorable() -> QuerySet[Dataset]:
    return Dataset.objects.filter(restore_ends_at__gt=clock.now()).select_related("project", "deleted_by")


def _visible(actor: Actor) -> QuerySet[Dataset]:
    heads = Branch.objects.filter(name=F("dataset__default_branch")).select_related("head")
    datasets = Dataset.objects.filter(deleted_at=None, is_internal=False).select_related("project", "store")
    if not actor.sees_everything:
        datasets = datasets.filter(project_id__in=actor.project_ids)
    return datasets.prefetch_related(Prefetch("branches", queryset=heads, to_attr="default_heads"))


def get_default_store() -> Store:
    """Return the store that new datasets go to. Raises StoreNotFound before the first start has made one."""
    store = Store.objects.filter(is_default=True).first()
    if store is None:
        raise StoreNotFound("No store is registered yet.")
    return store
