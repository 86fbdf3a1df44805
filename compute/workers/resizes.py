"""Elastic jobs that run get replicas and give some back, as the scheduler decides.

Level-triggered: what runs is compared with the placements, so that a lost message, or a death in between, is repaired
by the next run.
"""

from collections.abc import Sequence

from django.db import transaction
from django.db.models import QuerySet

from compute.adapters import drivers
from compute.engine.ports import Launch, ResizesJobs
from compute.engine.states import JobState
from compute.errors import ResourceUnreachable
from compute.models import Job
from compute.selectors import failures
from compute.services import journal
from compute.workers import checkpoints, launches, probes
from core import clock, hosts, isolation
from scheduler.selectors.workloads import WorkloadPods, list_pods
from scheduler.services import workloads


def find_elastic() -> list[QuerySet[Job]]:
    """Return the jobs that run and may get other numbers of replicas."""
    return [Job.objects.filter(is_live=True, min_replicas__gt=0, state=JobState.RUNNING)]


def resize_jobs() -> None:
    """Let each elastic job of this host run with the replicas that are placed; those that were evicted stop first."""
    (running,) = find_elastic()
    jobs = list(running.filter(resource__host__in=hosts.here()).select_related("resource").order_by("pk"))
    pods = list_pods([job.workload_id for job in jobs if job.workload_id is not None])
    isolation.for_each(failures.RESIZE, jobs, lambda job: _resize(job, pods.get(str(job.workload_id))))


def _resize(job: Job, pods: WorkloadPods | None) -> None:
    if pods is None:
        return
    is_same = [each.get("pod") for each in job.replicas] == [place.pod for place in pods.places]
    if is_same and not pods.evicted_ids:
        return
    fields = launches.placed_fields(job, pods.places)
    before = len(job.replicas)
    for column, value in fields.items():
        setattr(job, column, value)
    driver, replicas = drivers.driver_of(job.resource), launches.replicas_of(job)
    assert isinstance(driver, ResizesJobs)  # noqa: S101 (only such a kind is given elastic jobs)
    try:
        is_done = driver.resize(job.run_name, replicas, lambda: _prepare(job))
    except ResourceUnreachable as error:
        probes.note_unreachable(resource=job.resource, error=error)
        return
    if is_done:  # what those hold that have yet to stop is nobody else's
        _record(job, fields, pods.evicted_ids, before)


def _prepare(job: Job) -> Launch:
    """Return what starts the replicas by which a job grows."""
    return launches.launch_of(job, checkpoints.take(job) if job.checkpoint_id is not None else None)


@transaction.atomic
def _record(job: Job, fields: dict[str, object], evicted_ids: Sequence[str], before: int) -> None:
    """Note the replicas of a job unless it has ended meanwhile, and give back what the stopped ones held."""
    locked = [each for each in journal.lock_jobs([job.pk]) if each.token == job.token and each.state == job.state]
    if not locked:
        return
    Job.objects.filter(pk=job.pk).update(**fields)
    workloads.requeue_pods(evicted_ids)
    now = len(job.replicas)
    if now != before:
        verb = "Grows" if now > before else "Shrinks"
        message = f"{verb} from {before} to {now} of {job.replica_count} replicas."
        journal.record_notes({job.pk: message}, now=clock.now(), locked=locked)
