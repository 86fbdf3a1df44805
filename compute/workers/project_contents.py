"""The jobs of deleted projects: stopped as anybody's are, and removed once nothing of them is left elsewhere."""

from functools import partial

from django.db.models import Q

from accounts import project_contents
from accounts.models import Project
from accounts.permissions import Actor
from accounts.project_contents import ProjectContents, RemovalWaits, first_ids, remove_first
from compute.models import Checkpoint, Job, JobEvent, StoredLogChunk
from compute.selectors.project_contents import describe
from compute.services import jobs
from core import isolation, tasks
from core.units import count_of

_SYSTEM = Actor.system("deleted projects")


def _stop(project: Project) -> None:
    """Stop the jobs, each with its grace period."""
    live = Job.objects.filter(project=project.pk, project__deleted_at__isnull=False, is_live=True, part_of=None)
    reason = f"The project {project.name} was deleted" + (f" by {project.deleted_by}." if project.deleted_by else ".")
    isolation.for_each("compute.stop_job", live.order_by("pk"), partial(_cancel, reason))


def _cancel(reason: str, job: Job) -> None:
    jobs.cancel_job(actor=_SYSTEM, job=job, reason=reason)


def _remove(project_id: str) -> bool:
    own = Job.objects.filter(project=project_id)
    if live := own.filter(is_live=True).count():
        raise RemovalWaits(f"It waits for {count_of(live, 'job')} to stop.")
    # What a detached resource has cannot be deleted any more.
    gone = Q(files_deleted_at__isnull=False) | Q(resource__detached_at__isnull=False)
    removable = own.filter(gone)
    parts = removable.filter(part_of__isnull=False)
    ids = first_ids(parts) or first_ids(removable.filter(parts=None))
    checkpoints = Checkpoint.objects.filter(project=project_id)
    ended = checkpoints.filter(Q(deleted_at__isnull=False) | Q(resource__detached_at__isnull=False))
    if remove_first(
        JobEvent.objects.filter(job__in=ids),
        StoredLogChunk.objects.filter(job__in=ids),
        own.filter(pk__in=ids),
        ended,
    ):
        return True
    if (job := own.select_related("resource").order_by("pk").first()) is not None:
        tasks.enqueue("compute.clean")
        silence = ", which does not answer" if job.resource.is_lost else ""
        raise RemovalWaits(f"It waits for files of {count_of(own.count(), 'job')} on {job.resource.name}{silence}.")
    if left := checkpoints.count():
        raise RemovalWaits(f"It waits for {count_of(left, 'checkpoint folder')} to be deleted.")
    return False


project_contents.add(ProjectContents("compute", describe, _stop, _remove))
