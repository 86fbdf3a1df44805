"""Imports in place: a dataset refers to files where they lie. Asked for here; done by `workers.in_place`."""

from django.db import transaction

from accounts import audit
from accounts.actor import Actor
from accounts.permissions import require
from core import clock
from core.errors import InvalidInput
from core.tasks import enqueue_on_commit
from datasets import permissions
from datasets.errors import ImportNotReady
from datasets.models import Dataset, ImportState, InPlaceImport
from datasets.selectors import commits, sources
from nearline.content.errors import BadPath
from nearline.content.paths import check_path

_LONGEST_MESSAGE = 10_000


@transaction.atomic
def request_import(
    *,
    actor: Actor,
    dataset: Dataset,
    source: str,
    prefix: str,
    directory: str = "",
    branch: str = "",
    message: str = "",
) -> InPlaceImport:
    """Have a folder of a source imported: what it holds is put on top of a branch, by one commit.

    Each file is read once, and none is copied. Raises SourceNotFound, ReferenceNotFound, InvalidInput.
    """
    require(actor, permissions.COMMIT, dataset.project_id)
    found = sources.get_source_for(actor=actor, dataset=dataset, name=source)
    into = commits.get_branch(actor, dataset, branch or dataset.default_branch)
    if len(message) > _LONGEST_MESSAGE:
        raise InvalidInput(f"A message has at most {_LONGEST_MESSAGE} characters.")
    row = InPlaceImport.objects.create(
        dataset=dataset,
        source=found,
        prefix=_check_folder(prefix),
        directory=_check_folder(directory),
        branch=into.name,
        message=message or f"Import {found.name}:{prefix.strip('/')} in place",
        user_id=actor.user_id,
    )
    audit.record(
        actor, "datasets.import_in_place", row, project_id=dataset.project_id, dataset=dataset.name, source=found.name
    )
    enqueue_on_commit("datasets.work_on_import", import_id=row.pk)
    return row


@transaction.atomic
def promote(*, actor: Actor, row: InPlaceImport) -> InPlaceImport:
    """Have the content of an import copied into the store, so that nothing needs its source. Raises ImportNotReady."""
    require(actor, permissions.COMMIT, row.dataset.project_id)
    states = [ImportState.REFERENCED, ImportState.PROMOTING]
    rows = InPlaceImport.objects.filter(pk=row.pk, state__in=states)
    if not rows.update(state=ImportState.PROMOTING, error="", error_code=""):
        raise ImportNotReady(f"The import is {row.state}, so there is nothing to promote.")
    audit.record(actor, "datasets.promote", row, project_id=row.dataset.project_id, dataset=row.dataset.name)
    enqueue_on_commit("datasets.work_on_import", import_id=row.pk)
    row.refresh_from_db(fields=["state", "error", "error_code"])
    return row


@transaction.atomic
def request_check(*, actor: Actor, row: InPlaceImport) -> InPlaceImport:
    """Have the files of an import compared with what they were, and heal what is right. Raises ImportNotReady."""
    require(actor, permissions.COMMIT, row.dataset.project_id)
    rows = InPlaceImport.objects.filter(pk=row.pk, state__in=[ImportState.REFERENCED, ImportState.PROMOTING])
    if not rows.update(check_requested_at=clock.now()):
        raise ImportNotReady(f"The import is {row.state}, so there is nothing to check.")
    audit.record(actor, "datasets.check_import", row, project_id=row.dataset.project_id, dataset=row.dataset.name)
    enqueue_on_commit("datasets.work_on_import", import_id=row.pk)
    row.refresh_from_db(fields=["check_requested_at"])
    return row


def _check_folder(text: str) -> str:
    """Return a folder without slashes at its ends; empty for the whole. Raises InvalidInput."""
    path = text.strip("/")
    if path:
        try:
            check_path(path.encode())
        except (BadPath, UnicodeEncodeError) as error:
            raise InvalidInput(f"'{path}' cannot be a folder: {error}") from error
    return path
