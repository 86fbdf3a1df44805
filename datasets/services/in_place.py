"""Imports in place: a dataset refers to files where they lie. Asked for here; done by `workers.in_place`."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from django.db import transaction

from accounts import audit
from accounts.models import Project
from accounts.permissions import Actor, require
from core import clock
from core.errors import InvalidInput
from core.tasks import enqueue_on_commit
from datasets import permissions
from datasets.adapters.opening import open_source
from datasets.adapters.sources.listing import FirstFiles, LookedAtEnough, list_import, require_place
from datasets.errors import ImportNotReady
from datasets.models import WORKING, Branch, CacheSite, Dataset, FileSource, ImportState, InPlaceImport, SourceKind
from datasets.selectors import commits, sources
from datasets.selectors import in_place as reads
from nearline.content.errors import BadPath
from nearline.content.mapping import FoundFile
from nearline.content.paths import check_path, show_path

_LONGEST_MESSAGE = 10_000
_MOST_PREVIEWED = 10_000
_MOST_LISTED = 50_000
_MOST_READ_BYTES = 8 << 20


@dataclass(frozen=True)
class Preview:
    """What a folder of a source holds. `is_complete` is false where it holds more than was looked at."""

    files: int
    size_bytes: int
    skipped: Sequence[str]
    is_complete: bool


def preview_import(*, actor: Actor, project: Project, source: str, prefix: str) -> Preview:
    """Count the first ten thousand files of a folder of a source; of DVC's files alone is any read.

    It ends sooner where files are looked for among more than fifty thousand, as in a large cache of DVC.

    Raises SourceNotFound, SourceFileMissing, SourceUnreachable, InvalidInput.
    """
    require(actor, permissions.COMMIT, project.pk)
    row = sources.get_source_for(actor=actor, project=project, name=source)
    if row.kind == SourceKind.SITE:
        raise InvalidInput("Its files are counted by a pod of its cluster, when they are imported.")
    first = FirstFiles(open_source(row), most_files=_MOST_LISTED, most_bytes=_MOST_READ_BYTES)
    listed = list_import(first, _check_folder(prefix).encode())
    files = list[FoundFile]()
    try:
        files.extend(file for _, file in islice(listed, _MOST_PREVIEWED))
        is_complete = next(listed, None) is None
    except LookedAtEnough:
        is_complete = False
    skipped = [f"{show_path(file.path)} {file.why}" for file in files if file.why]
    return Preview(len(files) - len(skipped), sum(file.size_bytes for file in files), skipped, is_complete)


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

    Each file is read once, and none is copied. Raises SourceNotFound, ReferenceNotFound, InvalidInput,
    SourceFileMissing, SourceUnreachable; what a volume holds, only a pod of its cluster sees.
    """
    require(actor, permissions.COMMIT, dataset.project_id)
    source_row = sources.get_source_for(actor=actor, project=dataset.project, name=source)
    into = commits.get_branch(actor, dataset, branch or dataset.default_branch)
    if source_row.kind == SourceKind.SITE:
        _check_whole(source_row, into, prefix, directory)
    if len(message) > _LONGEST_MESSAGE:
        raise InvalidInput(f"A message has at most {_LONGEST_MESSAGE} characters.")
    row = InPlaceImport(
        dataset=dataset,
        source=source_row,
        prefix=_check_folder(prefix),
        directory=_check_folder(directory),
        branch=into.name,
        message=message or f"Import {source_row.name}:{prefix.strip('/')} in place",
        user_id=actor.user_id,
    )
    if source_row.kind != SourceKind.SITE:
        require_place(open_source(source_row), row.prefix.encode())
    _record_import(actor, row)
    return row


@transaction.atomic
def _record_import(actor: Actor, row: InPlaceImport) -> None:
    row.save()
    audit.record(
        actor,
        "datasets.import_in_place",
        row,
        project_id=row.dataset.project_id,
        dataset=row.dataset.name,
        source=row.source.name,
    )
    enqueue_on_commit("datasets.work_on_import", import_id=row.pk)


@transaction.atomic
def promote(*, actor: Actor, row: InPlaceImport) -> InPlaceImport:
    """Have the content of an import copied into the store, so that nothing needs its source. Raises ImportNotReady."""
    require(actor, permissions.COMMIT, row.dataset.project_id)
    states = [ImportState.REFERENCED, ImportState.PROMOTING]
    rows = InPlaceImport.objects.filter(pk=row.pk, state__in=states)
    begun = {"work_bytes": reads.measure_referenced([row]).get(row.pk, 0), "started_at": clock.now()}
    if not rows.update(state=ImportState.PROMOTING, error="", error_code="", **begun):
        raise ImportNotReady(f"The import is {row.state}, so there is nothing to promote.")
    audit.record(actor, "datasets.promote", row, project_id=row.dataset.project_id, dataset=row.dataset.name)
    enqueue_on_commit("datasets.work_on_import", import_id=row.pk)
    row.refresh_from_db(fields=["state", "error", "error_code", *begun])
    return row


@transaction.atomic
def cancel(*, actor: Actor, row: InPlaceImport) -> InPlaceImport:
    """Have an import stopped that is under way, or the promotion of one, and nothing left of the work.

    An import that has its commit by then stays, and content that is in the store. Raises ImportNotReady.
    """
    require(actor, permissions.COMMIT, row.dataset.project_id)
    if not InPlaceImport.objects.filter(pk=row.pk, state__in=WORKING).update(state=ImportState.CANCELLING):
        raise ImportNotReady(f"The import is {row.state}, so there is nothing to cancel.")
    audit.record(actor, "datasets.cancel_import", row, project_id=row.dataset.project_id, dataset=row.dataset.name)
    enqueue_on_commit("datasets.work_on_import", import_id=row.pk)
    row.refresh_from_db(fields=["state"])
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


def _check_whole(source: FileSource, branch: Branch, prefix: str, directory: str) -> None:
    """Require that the files of a volume become all of a commit: its site holds that commit then, and no other."""
    if prefix.strip("/.") or directory.strip("/"):
        raise InvalidInput(f"{source.name} is imported as a whole, to the top of the dataset.")
    if branch.head_id is not None:
        raise InvalidInput(f"{branch.name} has a commit. What is imported from {source.name} is the first of a branch.")
    site = CacheSite.objects.filter(name=source.site_name).first()
    if site is None or site.config.get("commit"):
        raise InvalidInput(f"The files of {source.name} are a commit already, or their cache site is gone.")


def _check_folder(text: str) -> str:
    """Return a folder without slashes at its ends; empty for the whole. Raises InvalidInput."""
    path = text.strip("/")
    path = "" if path == "." else path
    if path:
        try:
            check_path(path.encode())
        except (BadPath, UnicodeEncodeError) as error:
            raise InvalidInput(f"'{path}' cannot be a folder: {error}") from error
    return path
