"""Background tasks of compute: ids in, one worker, done. Each periodic run finds the work of a lost message."""

from compute.workers import (
    checkpoints,
    cleaning,
    data_waits,
    deleted_jobs,
    forecasts,
    idleness,
    launches,
    logs,
    observe,
    parts,
    probes,
    releases,
    resizes,
    stranded,
    watch,
)
from core.tasks import Queue, task
from scheduler.selectors.workloads import find_pending_with_data, find_terminating, find_unclaimed


@task(
    "compute.launch",
    queue=Queue.WATCH,
    every_s=1.0,
    on=("scheduler.workload_placed",),
    find_work=find_unclaimed,
    handover=3,
    on_each_host=True,
)
def launch_jobs() -> None:
    """Start jobs whose workload was placed."""
    launches.start_placed_jobs()


@task(
    "compute.observe",
    queue=Queue.WATCH,
    every_s=1.0,
    find_work=observe.find_started,
    # A resource may have jobs that no row tells of, and may have stopped to answer.
    anyway_s=60.0,
    on_each_host=True,
)
def observe_jobs(resource_id: str | None = None) -> None:
    """Compare what runs with the database, on one resource or on all."""
    if resource_id is None:
        observe.observe_all()
    else:
        observe.observe_each([resource_id])


@task("compute.watch", queue=Queue.WATCH, every_s=2.0, find_work=watch.find_changed, on_each_host=True)
def watch_resources() -> None:
    """Watch the resources that were attached, and no longer those that were detached."""
    watch.read_attached()


@task("compute.stop", queue=Queue.WATCH)
def stop_jobs() -> None:
    """Stop cancelled jobs. Without a period: each run of `compute.observe` stops them again."""
    launches.stop_ending_jobs()


@task(
    "compute.evict",
    queue=Queue.WATCH,
    every_s=1.0,
    on=("scheduler.workload_evicted",),
    find_work=find_terminating,
)
def evict_jobs() -> None:
    """Stop the jobs whose workload was evicted."""
    launches.evict_jobs()


@task(
    "compute.resize",
    queue=Queue.WATCH,
    every_s=1.0,
    # Only gangs are elastic, and most jobs are none: their starts are to cost nothing here.
    on=("scheduler.gang_placed", "scheduler.workload_evicted"),
    find_work=resizes.find_elastic,
    on_each_host=True,
)
def resize_jobs() -> None:
    """Let elastic jobs run with the replicas that are placed."""
    resizes.resize_jobs()


@task("compute.probe", queue=Queue.WATCH, every_s=30.0, on_each_host=True)
def probe_resources() -> None:
    """Ask the resources for their nodes."""
    probes.probe_all()


@task(
    "compute.watch_idle",
    queue=Queue.WATCH,
    every_s=15.0,
    find_work=idleness.find_limited,
    on_each_host=True,
)
def watch_idle() -> None:
    """Warn about jobs that are idle, and stop those that have reached their idle limit."""
    idleness.watch_idle()


@task("compute.release_data", queue=Queue.WATCH, every_s=15.0, find_work=releases.find_held)
def release_data() -> None:
    """Release the cached commits that ended jobs held."""
    releases.release_data()


@task("compute.store_logs", queue=Queue.NOTIFY, every_s=15.0, find_work=logs.find_unstored, on_each_host=True)
def store_logs() -> None:
    """Write what jobs have printed to the store."""
    logs.store_logs()


@task(
    "compute.store_checkpoints",
    queue=Queue.NOTIFY,
    every_s=5.0,
    find_work=checkpoints.find_wanted,
    on_each_host=True,
)
def store_checkpoints() -> None:
    """Store the checkpoints for which jobs wait elsewhere."""
    checkpoints.store_wanted()


@task(
    "compute.delete_checkpoints",
    queue=Queue.TIDY,
    every_s=60.0,
    find_work=checkpoints.find_due,
    on_each_host=True,
)
def delete_checkpoints() -> None:
    """Delete the checkpoints that no job needs any more."""
    checkpoints.delete_due()


@task("compute.purge_deleted_jobs", queue=Queue.TIDY, every_s=60.0, find_work=deleted_jobs.find_deleted)
def purge_deleted_jobs() -> None:
    """Let the store go of what deleted jobs left."""
    deleted_jobs.purge_deleted()


@task("compute.end_stranded", queue=Queue.TIDY, every_s=15.0, find_work=stranded.find_stranded)
def end_stranded() -> None:
    """Fail the jobs that wait on a resource that was detached while they were submitted."""
    stranded.end_stranded()


@task("compute.clean", queue=Queue.TIDY, every_s=3600.0, on_each_host=True)
def delete_old_files() -> None:
    """Delete the files of jobs that ended long ago."""
    cleaning.delete_old_files()


@task(
    "compute.release_volumes",
    queue=Queue.TIDY,
    every_s=5.0,
    find_work=cleaning.find_leaving,
    on_each_host=True,
)
def release_volumes() -> None:
    """Delete what ended jobs keep of volumes that are to go."""
    cleaning.release_volumes()


@task("compute.delete_orphans", queue=Queue.TIDY, every_s=600.0, on_each_host=True)
def delete_orphans() -> None:
    """Delete what resources keep of jobs that are gone."""
    cleaning.delete_orphans()


@task(
    "compute.update_missing_bytes",
    queue=Queue.WATCH,
    every_s=5.0,
    on=("datasets.cached_commit_changed",),
    find_work=find_pending_with_data,
)
def update_missing_bytes() -> None:
    """Tell the scheduler what pending workloads lack of their data."""
    data_waits.update_missing_bytes()


@task("compute.clean_trees", queue=Queue.TIDY, every_s=3600.0, on_each_host=True)
def delete_idle_trees() -> None:
    """Delete the trees on this host that no job uses."""
    cleaning.delete_idle_trees()


@task(
    "compute.queue_ready_jobs",
    queue=Queue.WATCH,
    every_s=2.0,
    on=("datasets.cached_commit_changed",),
    find_work=data_waits.find_waiting,
)
def queue_ready_jobs() -> None:
    """Queue the jobs whose datasets have become ready."""
    data_waits.queue_ready_jobs()


@task("compute.advance_parts", queue=Queue.WATCH, every_s=1.0, find_work=parts.find_live)
def advance_parts() -> None:
    """Submit what may run of the parts of jobs, and end the jobs whose parts are over."""
    parts.advance_parts()


@task("compute.forecast", queue=Queue.NOTIFY, every_s=5.0, find_work=forecasts.find_work)
def forecast_starts() -> None:
    """Forecast when waiting jobs start, and score what was told to those that have."""
    forecasts.update_forecasts()
