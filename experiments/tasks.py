"""Background tasks of experiments: ids in, one worker, done. Each periodic run finds the work of a lost message."""

from core.tasks import Queue, task
from experiments.workers import artifacts, deletions, harvest, jobs, moves


@task("experiments.harvest", queue=Queue.NOTIFY, every_s=2.0, find_work=harvest.find_running, on_each_host=True)
def harvest_logs() -> None:
    """Read new lines from the logs of running jobs."""
    harvest.read_running()


@task("experiments.read_late_logs", queue=Queue.NOTIFY, every_s=60.0, find_work=harvest.find_late, on_each_host=True)
def read_late_logs() -> None:
    """Read what is left of the logs that could not be read to their end when their jobs ended."""
    harvest.read_late()


@task("experiments.follow_jobs", queue=Queue.NOTIFY, every_s=2.0, find_work=jobs.find_live, on_each_host=True)
def follow_jobs() -> None:
    """Copy the states of submitted jobs to their experiments."""
    jobs.follow_jobs()


@task(
    "experiments.store_artifacts", queue=Queue.NOTIFY, every_s=2.0, find_work=artifacts.find_unstored, on_each_host=True
)
def store_artifacts(run_id: str | None = None) -> None:
    """Store the outputs of jobs that succeeded."""
    artifacts.store_artifacts(run_id)


@task("experiments.remove_deleted", queue=Queue.TIDY, every_s=60.0, find_work=deletions.find_deleted)
def remove_deleted() -> None:
    """Remove what deleted experiments recorded."""
    deletions.remove_deleted()


@task("experiments.move_artifacts", queue=Queue.TIDY, every_s=60.0, find_work=moves.find_old, on_each_host=True)
def move_artifacts() -> None:
    """Move what the first release stored in a folder into the store of trees."""
    moves.move_artifacts()
