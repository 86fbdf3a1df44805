"""Background tasks of flows: ids in, one worker, done. Each periodic run finds the work of a lost message."""

from core.tasks import Queue, task
from flows.workers import advance, cleaning, code, deletions, staging


@task(
    "flows.advance",
    queue=Queue.ADVANCE,
    every_s=1.0,
    find_work=advance.find_work,
    handover=1,
    on_each_host=True,
)
def advance_runs(run_id: str | None = None) -> None:
    """Advance one run, or all that have something to do."""
    if run_id is None:
        advance.advance_all()
    else:
        advance.advance_each([run_id])


@task("flows.copy_input", queue=Queue.CACHE, every_s=2.0, find_work=staging.find_pending_copies, on_each_host=True)
def copy_inputs(input_id: str | None = None) -> None:
    """Write the copies of datasets that attempts need for themselves."""
    if input_id is None:
        staging.copy_pending_inputs()
    else:
        staging.copy_each([input_id])


@task("flows.release_inputs", queue=Queue.NOTIFY, every_s=5.0, find_work=staging.find_held_inputs)
def release_inputs() -> None:
    """Release what ended attempts held."""
    staging.release_inputs()


@task("flows.remove_deleted", queue=Queue.TIDY, every_s=60.0, find_work=deletions.find_deleted)
def remove_deleted() -> None:
    """Remove deleted runs and flows."""
    deletions.remove_deleted()


@task("flows.clean", queue=Queue.TIDY, every_s=3600.0, on_each_host=True)
def delete_run_folders() -> None:
    """Delete the folders of runs whose jobs' files are deleted."""
    cleaning.delete_run_folders()


@task("flows.move_code", queue=Queue.TIDY, every_s=60.0, find_work=code.find_old, on_each_host=True)
def move_code() -> None:
    """Move code that earlier releases kept in the home folder into the store."""
    code.move_code()


@task("flows.clean_code", queue=Queue.TIDY, every_s=3600.0)
def delete_unused_code() -> None:
    """Delete code that no version of a flow has."""
    code.delete_unused()
