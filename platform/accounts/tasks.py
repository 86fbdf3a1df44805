"""Background tasks of projects: one worker, done."""

from accounts.workers import deleted_projects
from core.tasks import Queue, task


@task("accounts.stop_deleted_projects", queue=Queue.WATCH, every_s=30, find_work=deleted_projects.find_deleted)
def stop_deleted_projects() -> None:
    """Stop what runs or waits in deleted projects."""
    deleted_projects.stop_work()


@task("accounts.remove_deleted_projects", queue=Queue.TIDY, every_s=60, find_work=deleted_projects.find_ended)
def remove_deleted_projects() -> None:
    """Remove what projects have that cannot be restored any more."""
    deleted_projects.remove_contents()
