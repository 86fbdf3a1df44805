"""The files of a run go together, some time after its end: those of its jobs, then what it kept beside them."""

from contextlib import suppress
from datetime import datetime
from pathlib import Path

from django.db import transaction

from compute.selectors import jobs as job_selectors
from core import isolation
from core.removals import remove_folder
from flows.models import Attempt, Run
from flows.workers import handover

_LEAVING = ".leaving-"


def needs_files(job_id: str, *, unused_since: datetime) -> bool:
    """Whether a job belongs to a run that goes on, or that ended after that moment and may well be retried.

    The run is held until the caller's transaction ends, so that it cannot be retried meanwhile.
    """
    run = Run.objects.select_for_update(of=("self",)).filter(attempts__job=job_id).first()
    if run is None or run.deleted_at is not None:
        return False
    return run.finished_at is None or run.finished_at > unused_since


def delete_run_folders() -> int:
    """Delete the folders of runs that are gone or whose jobs' files are deleted; return how many."""
    parent = handover.run_folder("any").parent
    folders = sorted(parent.iterdir()) if parent.is_dir() else []
    return sum(isolation.for_each("flows.delete_run_folder", folders, _delete, key=lambda folder: folder.name))


def _delete(folder: Path) -> bool:
    leaving = folder if folder.name.startswith(_LEAVING) else _take(folder)
    if leaving is not None:
        with suppress(OSError):
            remove_folder(leaving)
    return leaving is not None


@transaction.atomic
def _take(folder: Path) -> Path | None:
    """Rename a folder that nobody needs, with its run held: should it be retried right after, it makes another."""
    run = Run.objects.select_for_update().filter(pk=folder.name).first()
    if run is not None:
        jobs = job_selectors.states_of(Attempt.objects.filter(run=run).values("job"))
        if not run.has_ended or any(job.has_files for job in jobs.values()):
            return None
    return folder.rename(folder.with_name(_LEAVING + folder.name))
