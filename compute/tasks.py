"""Background work of compute: ids in, one service, done. Each tick finds what a lost ring left."""

from compute.services import resources, submissions
from compute.workers import cleaning, launches, observe, stops
from core import doorbell
from core.doorbell import Lane


@doorbell.task("compute.launch", lane=Lane.WATCH, every_s=1.0)
def launch_jobs() -> None:
    """Start jobs that got their room."""
    launches.start_placed_jobs()


@doorbell.task("compute.observe", lane=Lane.WATCH, every_s=1.0)
def observe_jobs(resource_id: str | None = None) -> None:
    """Compare what runs with the books, on one resource or on all."""
    if resource_id is None:
        observe.observe_all()
    else:
        observe.observe_each([resource_id])


@doorbell.task("compute.stop", lane=Lane.WATCH)
def stop_jobs() -> None:
    """Tell cancelled jobs to end. Without a tick: each look of `compute.observe` tells them again."""
    stops.stop_ending_jobs()


@doorbell.task("compute.evict", lane=Lane.WATCH, every_s=1.0)
def evict_jobs() -> None:
    """Stop the jobs that are to give their room to others."""
    stops.evict_jobs()


@doorbell.task("compute.probe", lane=Lane.WATCH, every_s=30.0)
def probe_resources() -> None:
    """Ask the resources for their nodes."""
    resources.probe_all()


@doorbell.task("compute.release_data", lane=Lane.WATCH, every_s=15.0)
def release_data() -> None:
    """Let go of the cached commits of ended jobs."""
    submissions.release_data()


@doorbell.task("compute.clean", lane=Lane.TIDY, every_s=3600.0)
def delete_old_files() -> None:
    """Delete the files of jobs that ended long ago."""
    cleaning.delete_old_files()
