"""Datasets: made, described, deleted; and the bytes of deleted ones removed from the store."""

import structlog
from django.db import IntegrityError, transaction

from accounts import audit
from accounts.actor import Actor
from accounts.models import Project
from accounts.permissions import require
from accounts.services.projects import check_name
from core import clock, isolation, tasks
from core.errors import InvalidInput
from datasets import permissions
from datasets.adapters.opening import open_dataset_store
from datasets.engine.cache_states import LIVE, CacheState
from datasets.engine.names import check_label
from datasets.errors import CacheInUse, DatasetExists
from datasets.models import Branch, CachedCommit, Dataset, Pack, UploadSession, UploadState
from datasets.services import caches, stores

log = structlog.get_logger(__name__)

MAIN = "main"
INTERNAL_NAME = "~trees"
"""The name of internal datasets: one that nobody can choose."""
_LONGEST_DESCRIPTION = 2000
_LONGEST_KIND = 30
_PURGED_AT_A_TIME = 10
PURGE = "datasets.purge"
"""The kind of failures; items are datasets."""


def create_dataset(*, actor: Actor, project: Project, name: str, description: str = "", kind: str = "") -> Dataset:
    """Create an empty dataset with an empty branch `main`. Raises InvalidName and DatasetExists."""
    require(actor, permissions.CREATE, project.id)
    check_name(name)
    _check_texts(description, kind)
    store = stores.get_default_store()
    try:
        with transaction.atomic():
            dataset = Dataset.objects.create(
                project=project,
                name=name,
                description=description,
                kind=kind or "general",
                default_branch=MAIN,
                store=store,
                created_by_id=actor.user_id,
            )
            Branch.objects.create(dataset=dataset, name=MAIN)
            audit.record(actor, "datasets.create", dataset)
    except IntegrityError as error:
        raise DatasetExists(f"There is a dataset {project.name}/{name} already.") from error
    return dataset


def ensure_internal_dataset(project_id: str) -> Dataset:
    """Return the dataset that holds a project's stored trees, made at the first need in the default store."""
    found = Dataset.objects.filter(project_id=project_id, is_internal=True, deleted_at=None).select_related("store")
    if dataset := found.first():
        return dataset
    fresh = Dataset(project_id=project_id, name=INTERNAL_NAME, is_internal=True, store=stores.get_default_store())
    Dataset.objects.bulk_create([fresh], ignore_conflicts=True)
    return found.get()


@transaction.atomic
def update_dataset(*, actor: Actor, dataset: Dataset, changes: dict[str, object]) -> Dataset:
    """Change what `changes` names: `description`, `kind`, `default_branch`, `idle_days` (None: as the site says)."""
    require(actor, permissions.EDIT, dataset.project_id)
    if unknown := set(changes) - {"description", "kind", "default_branch", "idle_days"}:
        raise InvalidInput(f"{', '.join(sorted(unknown))} of a dataset cannot be changed.")
    _check_texts(str(changes.get("description", "")), str(changes.get("kind", "")))
    if "default_branch" in changes:
        check_label(str(changes["default_branch"]))
        if not Branch.objects.filter(dataset=dataset, name=changes["default_branch"]).exists():
            raise InvalidInput(f"{dataset.name} has no branch called '{changes['default_branch']}'.")
    idle_days = changes.get("idle_days")
    if isinstance(idle_days, int | float) and not 0 <= idle_days < 10_000:  # noqa: PLR2004 (some 27 years)
        raise InvalidInput("The idle days are a number from 0 (never) on.")
    for field, value in changes.items():
        setattr(dataset, field, value)
    dataset.save(update_fields=list(changes))
    audit.record(actor, "datasets.update", dataset, project_id=dataset.project_id, **changes)
    return dataset


@transaction.atomic
def delete_dataset(*, actor: Actor, dataset: Dataset) -> None:
    """Hide a dataset for good and free its name. Its bytes leave the store and the cache sites soon after."""
    require(actor, permissions.DELETE, dataset.project_id)
    if dataset.is_internal:
        raise InvalidInput("The dataset of a project's outputs and code cannot be deleted.")
    if Dataset.objects.filter(pk=dataset.pk, deleted_at=None).update(deleted_at=clock.now()):
        UploadSession.objects.filter(dataset=dataset, state=UploadState.OPEN).update(state=UploadState.CANCELLED)
        audit.record(actor, "datasets.delete", dataset)
        tasks.enqueue_on_commit("datasets.purge_deleted")


def purge_deleted() -> int:
    """Let the cached copies of deleted datasets go, and remove the objects of those whose copies are gone.

    A copy that a job still reads is left to it, and tried again at the next tick. Objects stay until no address that
    was signed before the deletion is good any more, or what is sent to it would be left behind. Returns how many
    datasets are done.
    """
    _clear_copies()
    unreachable_since = clock.now() - stores.SIGNED_LIFETIME
    waiting = Dataset.objects.filter(deleted_at__lt=unreachable_since, purged_at=None).select_related("store")
    held = CachedCommit.objects.filter(state__in=LIVE).values("dataset_id")
    lending = Pack.objects.filter(lender__isnull=False).values("lender__dataset_id")
    done = 0

    def purge(dataset: Dataset) -> None:
        nonlocal done
        if done < _PURGED_AT_A_TIME:
            _purge(dataset)
            done += 1

    isolation.for_each(PURGE, waiting.exclude(pk__in=held).exclude(pk__in=lending).order_by("pk"), purge)
    return done


def _purge(dataset: Dataset) -> None:
    store = open_dataset_store(dataset)
    store.delete(blob.key for blob in store.list_blobs(""))
    with transaction.atomic():
        if Dataset.objects.filter(pk=dataset.pk, purged_at=None).update(purged_at=clock.now()):
            dataset.stored_trees.all().delete()
            dataset.ranges.all().delete()
            dataset.packs.all().delete()
            audit.record(Actor.system("deleted datasets"), "datasets.purge", dataset)
    log.info("dataset.purged", dataset_id=dataset.id)


def _clear_copies() -> None:
    copies = CachedCommit.objects.filter(dataset__deleted_at__isnull=False, state__in=LIVE - {CacheState.EVICTING})
    isolation.for_each("datasets.clear_copy", copies.filter(holds=None).order_by("pk"), _clear_copy)


def _clear_copy(copy: CachedCommit) -> None:
    system = Actor.system("deleted datasets")
    if copy.is_pinned:
        caches.unpin(system, copy.pk)
    try:
        caches.uncache(system, copy.pk)
    except CacheInUse:
        log.info("dataset.purge_waits", cached_commit_id=copy.pk)


def _check_texts(description: str, kind: str) -> None:
    if len(description) > _LONGEST_DESCRIPTION:
        raise InvalidInput(f"A description has at most {_LONGEST_DESCRIPTION} characters.")
    if len(kind) > _LONGEST_KIND:
        raise InvalidInput(f"A kind has at most {_LONGEST_KIND} characters.")
