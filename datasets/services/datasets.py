"""Datasets: made, described, deleted, restored."""

from datetime import timedelta

from django.conf import settings
from django.db import IntegrityError, transaction

from accounts import audit
from accounts.models import Project
from accounts.permissions import Actor, require
from accounts.services.projects import check_name
from core import clock, tasks
from core.errors import InvalidInput
from datasets import permissions
from datasets.engine.names import check_label
from datasets.errors import DatasetExists, DeletedDatasetNotFound, RestoreNameTaken
from datasets.models import Branch, Dataset, UploadSession, UploadState
from datasets.selectors.datasets import get_default_store
from datasets.services import records

MAIN = "main"
_LONGEST_DESCRIPTION = 2000
_LONGEST_KIND = 30


def create_dataset(*, actor: Actor, project: Project, name: str, description: str = "", kind: str = "") -> Dataset:
    """Create an empty dataset with an empty branch `main`. Raises InvalidName and DatasetExists."""
    require(actor, permissions.CREATE, project.id)
    check_name(name)
    _check_texts(description, kind)
    store = get_default_store()
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
            records.note_change(dataset.pk)
            audit.record(actor, "datasets.create", dataset)
    except IntegrityError as error:
        raise _name_taken(project.name, name) from error
    return dataset


@transaction.atomic
def update_dataset(*, actor: Actor, dataset: Dataset, changes: dict[str, object]) -> Dataset:
    """Change what `changes` names: `name`, `description`, `kind`, `default_branch`, `idle_days` (None: as sites say).

    References by the old name lead nowhere after another `name`, so that takes an admin. Raises InvalidName and
    DatasetExists.
    """
    require(actor, permissions.EDIT, dataset.project_id)
    if "name" in changes:
        require(actor, permissions.RENAME, dataset.project_id)
        check_name(str(changes["name"]))
    if unknown := set(changes) - {"description", "kind", "default_branch", "idle_days", "name"}:
        raise InvalidInput(f"{', '.join(sorted(unknown))} of a dataset cannot be changed.")
    _check_texts(str(changes.get("description", "")), str(changes.get("kind", "")))
    if "default_branch" in changes:
        check_label(str(changes["default_branch"]))
        Dataset.objects.select_for_update().only("pk").get(pk=dataset.pk)  # the branch is not deleted meanwhile
        if not Branch.objects.filter(dataset=dataset, name=changes["default_branch"]).exists():
            raise InvalidInput(f"{dataset.name} has no branch called '{changes['default_branch']}'.")
    idle_days = changes.get("idle_days")
    if isinstance(idle_days, int | float) and not 0 <= idle_days < 10_000:  # noqa: PLR2004 (some 27 years)
        raise InvalidInput("The idle days are a number from 0 (never) on.", field="idle_days")
    for field, value in changes.items():
        setattr(dataset, field, value)
    try:
        with transaction.atomic():
            dataset.save(update_fields=list(changes))
    except IntegrityError as error:
        raise _name_taken(dataset.project.name, dataset.name) from error
    records.note_change(dataset.pk)
    audit.record(actor, "datasets.update", dataset, project_id=dataset.project_id, **changes)
    return dataset


def foresee_deletion(*, actor: Actor, dataset: Dataset) -> int:
    """Return for how many days a dataset can be restored once it is deleted. Raises what deleting it raises."""
    _require_deletion(actor, dataset)
    return settings.NEARLINE.restore_days


@transaction.atomic
def delete_dataset(*, actor: Actor, dataset: Dataset, for_good: bool = False) -> Dataset:
    """Hide a dataset, free its name, and have its cached copies evicted. Return it as it is then.

    It can be restored until its `restore_ends_at`. Where that is None its bytes leave the store soon after.
    """
    _require_deletion(actor, dataset)
    now = clock.now()
    days = 0 if for_good else settings.NEARLINE.restore_days
    until = now + timedelta(days=days) if days else None
    rows = Dataset.objects.filter(pk=dataset.pk, deleted_at=None)
    if rows.update(deleted_at=now, deleted_by=actor.user_id, restore_ends_at=until):
        records.note_change(dataset.pk)
        UploadSession.objects.filter(dataset=dataset, state=UploadState.OPEN).update(state=UploadState.CANCELLED)
        audit.record(actor, "datasets.delete", dataset, restore_ends_at=until.isoformat() if until else None)
        tasks.enqueue_on_commit("datasets.purge_deleted")
    dataset.refresh_from_db(fields=["deleted_at", "deleted_by", "restore_ends_at"])
    return dataset


def restore_dataset(*, actor: Actor, dataset: Dataset, name: str = "") -> Dataset:
    """Bring back a deleted dataset, by another name where one is given. Its commits can be cached again.

    Raises InvalidName, RestoreNameTaken, and DeletedDatasetNotFound when its time is over or it was restored.
    """
    require(actor, permissions.DELETE, dataset.project_id)
    if name:
        check_name(name)
    name = name or dataset.name
    restored = {"deleted_at": None, "deleted_by": None, "restore_ends_at": None, "name": name}
    try:
        with transaction.atomic():
            if not Dataset.objects.filter(pk=dataset.pk, restore_ends_at__gt=clock.now()).update(**restored):
                raise DeletedDatasetNotFound(f"The dataset {dataset.pk} cannot be restored: it is not there any more.")
            records.note_change(dataset.pk)
            dataset.refresh_from_db(fields=list(restored))
            audit.record(actor, "datasets.restore", dataset)
    except IntegrityError as error:
        raise RestoreNameTaken(f"There is another dataset {dataset.project.name}/{name} now.") from error
    return dataset


@transaction.atomic
def delete_for_good(*, actor: Actor, dataset: Dataset) -> None:
    """End the time in which a deleted dataset can be restored. Its bytes leave the store soon after."""
    require(actor, permissions.DELETE, dataset.project_id)
    if Dataset.objects.filter(pk=dataset.pk, restore_ends_at__isnull=False).update(restore_ends_at=None):
        records.note_change(dataset.pk)
        audit.record(actor, "datasets.delete_for_good", dataset)
        tasks.enqueue_on_commit("datasets.purge_deleted")


def _require_deletion(actor: Actor, dataset: Dataset) -> None:
    require(actor, permissions.DELETE, dataset.project_id)
    if dataset.is_internal:
        raise InvalidInput("The dataset of a project's outputs and code cannot be deleted.")


def _name_taken(project: str, name: str) -> DatasetExists:
    return DatasetExists(f"There is a dataset {project}/{name} already.")


def _check_texts(description: str, kind: str) -> None:
    if len(description) > _LONGEST_DESCRIPTION:
        raise InvalidInput(f"A description has at most {_LONGEST_DESCRIPTION} characters.")
    if len(kind) > _LONGEST_KIND:
        raise InvalidInput(f"A kind has at most {_LONGEST_KIND} characters.")
