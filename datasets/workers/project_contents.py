"""The datasets of deleted projects: deleted for good in the end, so that their copies and objects go, then their rows.

While such a project can be restored its copies are evicted (`workers.purges`), and no upload goes on.
"""

from django.db import transaction
from django.db.models import Q, QuerySet

from accounts import project_contents
from accounts.models import Project
from accounts.project_contents import ProjectContents, RemovalWaits, remove_first
from core import clock, tasks
from core.orm import BATCH_ROWS
from core.units import count_of
from datasets.engine.cache_states import LIVE
from datasets.models import (
    Branch,
    CachedCommit,
    CachedCommitEvent,
    Commit,
    Dataset,
    FileSource,
    Query,
    Selection,
    StorageLimit,
    Tag,
    UploadPart,
    UploadSession,
    UploadState,
)
from datasets.selectors.project_contents import describe
from datasets.services import records


def _stop(project: Project) -> None:
    uploads = UploadSession.objects.filter(dataset__project=project.pk, dataset__project__deleted_at__isnull=False)
    uploads.filter(state=UploadState.OPEN).update(state=UploadState.CANCELLED)


def _remove(project_id: str) -> bool:
    own = Dataset.objects.filter(project=project_id)
    if _delete_for_good(own):
        return True
    if left := own.filter(purged_at=None).count():
        copies = CachedCommit.objects.filter(dataset__project=project_id, state__in=sorted(LIVE)).count()
        behind = f", of which {count_of(copies, 'cached commit')} leave first" if copies else ""
        raise RemovalWaits(f"It waits for the objects of {count_of(left, 'dataset')} to leave the store{behind}.")
    return (
        remove_first(
            UploadPart.objects.filter(upload__dataset__project=project_id),
            UploadSession.objects.filter(dataset__project=project_id),
            Branch.objects.filter(dataset__project=project_id),
            Tag.objects.filter(dataset__project=project_id),
            Query.objects.filter(dataset__project=project_id),
            Selection.objects.filter(source__dataset__project=project_id),
            CachedCommitEvent.objects.filter(cached_commit__dataset__project=project_id),
            CachedCommit.objects.filter(dataset__project=project_id),
        )
        or _remove_commits(project_id)
        or remove_first(
            own,
            StorageLimit.objects.filter(project=project_id),
            FileSource.projects.through.objects.filter(project=project_id),
        )
    )


@transaction.atomic
def _delete_for_good(rows: QuerySet[Dataset]) -> bool:
    """Delete some datasets so that they cannot be restored, also the one of outputs and code."""
    due = rows.filter(Q(deleted_at=None) | Q(restore_ends_at__isnull=False))
    ids = list(due.order_by("pk").values_list("pk", flat=True)[:BATCH_ROWS])
    Dataset.objects.filter(pk__in=ids).update(deleted_at=clock.now(), restore_ends_at=None)
    for dataset_id in ids:
        records.note_change(dataset_id)
    if ids:
        tasks.enqueue_on_commit("datasets.purge_deleted")
    return bool(ids)


@transaction.atomic
def _remove_commits(project_id: str) -> bool:
    """Remove the newest commits. None that stays has one of them as its parent."""
    newest = Commit.objects.filter(dataset__project=project_id).order_by("-created_at", "-pk")
    ids = list(newest.values_list("pk", flat=True)[:BATCH_ROWS])
    Commit.objects.filter(Q(parent__in=ids) | Q(merged__in=ids) | Q(pk__in=ids)).update(parent=None, merged=None)
    Commit.objects.filter(pk__in=ids).delete()
    return bool(ids)


project_contents.add(ProjectContents("datasets", describe, _stop, _remove))
