"""Checkpoint folders follow their jobs: stored when a run elsewhere needs them, deleted when nobody does any more."""

from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, Max, OuterRef, Q, QuerySet

from accounts.models import Project
from accounts.permissions import Actor
from compute.adapters import drivers
from compute.engine.job_spec import Tree
from compute.engine.ports import CheckpointFolder, KeepsCheckpoints, ReadsCheckpoints
from compute.engine.states import JobState
from compute.models import Checkpoint, Job, Resource
from compute.selectors import failures
from compute.services import checkpoints as services
from compute.services import journal
from compute.workers import outputs
from core import clock, hosts, isolation, tasks
from core.models import Failure
from datasets.selectors import trees as tree_selectors
from datasets.services import trees

KEEP = timedelta(days=7)
"""So long a folder stays after the last of its jobs has ended without success."""
_SYSTEM = Actor.system("checkpoints of jobs")
_MOST_TRIES = 5


def take(job: Job) -> CheckpointFolder | None:
    """Return the folder of a job that is to start, from now on in use on its resource.

    None: what it holds is on its way from another resource into the store; the job is looked at again.
    """
    row = Checkpoint.objects.select_related("resource").get(pk=job.checkpoint_id)
    if row.resource is not None and row.resource_id != job.resource_id and not _is_lost(row.resource):
        reason = f"Its checkpoint is being brought from {row.resource.name}."
        Checkpoint.objects.filter(pk=row.pk).update(is_wanted=True)
        journal.put_off_start(job, reason)
        tasks.enqueue("compute.store_checkpoints")
        return None
    changes: dict[str, object] = {"resource": job.resource_id, "is_wanted": False}
    if row.resource is not None and row.resource_id != job.resource_id:
        state = "is detached" if row.resource.detached_at is not None else "does not answer"
        changes |= _without_progress(row, f"{row.resource.name} {state}, so the checkpoint there was left behind.")
    if not Checkpoint.objects.filter(pk=row.pk, resource=row.resource_id).update(**changes):
        return take(job)  # it was stored meanwhile
    return CheckpointFolder(row.pk, Tree(row.dataset_id, row.root) if row.root else None)


def _without_progress(row: Checkpoint, why: str) -> dict[str, object]:
    """Return what is known of a folder whose newest content the next run will not find."""
    goes_on = "It goes on from an older one, which was stored." if row.root else "It begins anew."
    progress = dict.fromkeys(("step", "saved_at", "interrupted_at", "resumed_step", "lost_s"))
    return {**progress, "error": f"{why} {goes_on}"}


def _is_lost(resource: Resource) -> bool:
    """Whether what lies on a resource cannot be fetched: then a job goes on from what the store has."""
    return resource.is_lost or resource.detached_at is not None


def find_wanted() -> list[QuerySet[Checkpoint]]:
    """Return the folders for which a job waits elsewhere."""
    return [Checkpoint.objects.filter(is_wanted=True)]


def store_wanted() -> None:
    """Store the folders on this host's resources for which jobs wait elsewhere."""
    (job,) = find_wanted()
    rows = job.filter(resource__host__in=hosts.here()).select_related("resource").order_by("pk")
    isolation.for_each(failures.STORE_CHECKPOINT, rows, _store, on_failure=_give_up)


def _store(row: Checkpoint) -> None:
    """Store a folder, where it can be read. Where there is none, the store has the newest content."""
    assert row.resource is not None  # noqa: S101 (they were found by its host)
    driver = drivers.driver_of(row.resource)
    folder, changes = None, {}
    if isinstance(driver, ReadsCheckpoints):
        folder = driver.open_checkpoint(row.pk)
    else:
        why = f"A checkpoint cannot leave {row.resource.name}, whose volumes are read by its own jobs alone."
        changes = _without_progress(row, why)
    if folder is not None:
        project = Project.objects.get(pk=row.project_id)
        tree, left_out = outputs.store_folder(project, folder, holder=holder_of(row.pk))
        changes = {"dataset_id": "", "root": "", "error": left_out}
        if tree is not None:
            changes |= {"dataset_id": tree.dataset_id, "root": tree.root}
    if not _still_wanted(row).update(resource=None, is_wanted=False, **changes):
        _hold_recorded(row.pk)


def _still_wanted(row: Checkpoint) -> QuerySet[Checkpoint]:
    """Return the folder unless a job runs with it again where it lies: what is there is newer from then on."""
    return Checkpoint.objects.filter(pk=row.pk, resource=row.resource_id, is_wanted=True)


def _hold_recorded(checkpoint_id: str) -> None:
    """Hold what the row says that the store has of a folder, in place of what was stored but not recorded."""
    row, holder = Checkpoint.objects.get(pk=checkpoint_id), holder_of(checkpoint_id)
    if row.root:
        tree = tree_selectors.get_tree_of(_SYSTEM, row.project_id, row.root)
        trees.hold_tree(actor=_SYSTEM, tree=tree, holder=holder)
    else:
        trees.release_tree(actor=_SYSTEM, holder=holder)


def _give_up(row: Checkpoint, failure: Failure) -> None:
    """Let the job that waits go on from what the store has."""
    if failure.attempts >= _MOST_TRIES:
        why = f"The checkpoint on {row.resource} could not be stored: {failure.error.rstrip('.')}."
        changes = _without_progress(row, why)
        _still_wanted(row).update(resource=None, is_wanted=False, **changes)
        isolation.forget(failure.kind, [row.pk])


def holder_of(checkpoint_id: str) -> str:
    """Return the name by which a folder holds its stored content."""
    return f"{checkpoint_id}/checkpoint"


def find_due() -> list[QuerySet[Checkpoint]]:
    """Return the folders that no job needs any more. Those of a deleted project stay while it can be restored."""
    jobs = Job.objects.filter(checkpoint=OuterRef("pk"))
    idle = Checkpoint.objects.filter(deleted_at=None).exclude(Exists(jobs.filter(is_live=True)))
    ended = idle.annotate(ended_at=Max("jobs__finished_at"))
    has_succeeded = Exists(jobs.filter(state=JobState.SUCCEEDED))
    is_over = (
        Q(has_succeeded) | Q(ended_at=None) | Q(ended_at__lt=clock.now() - KEEP) | Q(project__deleted_at__isnull=False)
    )
    return [ended.filter(is_over, project__restore_ends_at=None)]


def delete_due() -> None:
    """Delete the folders that no job needs any more, and let go of what the store has of them."""
    (due,) = find_due()
    here = Q(resource=None) | Q(resource__host__in=hosts.here())
    rows = due.filter(here).select_related("resource").order_by("pk")
    isolation.for_each(failures.DELETE_CHECKPOINT, rows, _delete)


def _delete(row: Checkpoint) -> None:
    if not _retire(row.pk):
        return
    if row.resource is not None and not _is_lost(row.resource):
        driver = drivers.driver_of(row.resource)
        if isinstance(driver, KeepsCheckpoints):
            driver.delete_checkpoint(row.pk)
    trees.release_tree(actor=_SYSTEM, holder=holder_of(row.pk))
    Checkpoint.objects.filter(pk=row.pk).update(deleted_at=clock.now())


@transaction.atomic
def _retire(checkpoint_id: str) -> bool:
    """Let no new job have a folder, unless one needs it by now; say whether that was possible."""
    row = Checkpoint.objects.select_for_update().get(pk=checkpoint_id)
    (due,) = find_due()
    if not due.filter(pk=row.pk).exists():
        return False
    services.retire(Checkpoint.objects.filter(pk=row.pk))
    return True
