"""Jobs that are to end are told so. Told again at each look, until they have ended."""

from collections.abc import Sequence

from django.db import transaction

from compute.adapters import drivers
from compute.engine.ports import ComputeDriver
from compute.engine.states import JobState
from compute.errors import ResourceUnreachable
from compute.models import Job
from compute.services import journal, resources
from core import clock
from scheduler.services import workloads

GRACE_S = 10.0


def evict_jobs() -> None:
    """Stop the jobs that are to give their room to others. They wait again once they have stopped."""
    # Asked without a lock first: most ticks find nothing.
    reasons = workloads.list_leaving()
    if not reasons:
        return
    with transaction.atomic():
        steps = []
        for batch in journal.batches(list(reasons)):
            jobs = Job.objects.filter(workload_id__in=batch, state__in=(JobState.STARTING, JobState.RUNNING))
            for job_id, token, workload_id in jobs.order_by("pk").values_list("pk", "token", "workload_id"):
                reason = reasons[str(workload_id)]
                steps.append(journal.Step(job_id, token, JobState.LEAVING, reason, {"reason": reason}))
        is_news = journal.record_steps(steps, now=clock.now())
    if is_news:
        stop_ending_jobs()


def stop_ending_jobs() -> None:
    """Tell every job that is being cancelled or evicted to end. What cannot be reached now is told at a later look."""
    ending = Job.objects.filter(state__in=(JobState.LEAVING, JobState.STOPPING))
    for job in ending.select_related("resource").order_by("pk"):
        try:
            drivers.driver_of(job.resource).stop(job.run_name, GRACE_S)
        except ResourceUnreachable as error:
            resources.note_unreachable(resource=job.resource, error=error)


def stop_jobs(driver: ComputeDriver, names: Sequence[str]) -> None:
    """Tell these jobs to end."""
    for name in names:
        driver.stop(name, GRACE_S)
