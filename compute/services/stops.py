"""Jobs that are to end are told so. Told again at each look, until they have ended."""

from collections.abc import Sequence

from compute.adapters import drivers
from compute.engine.ports import ComputeDriver
from compute.engine.states import JobState
from compute.errors import ResourceUnreachable
from compute.models import Job
from compute.services import resources

GRACE_S = 10.0


def stop_cancelled_jobs() -> None:
    """Tell every job that is being cancelled to end. What cannot be reached now is told at a later look."""
    stopping = Job.objects.filter(state=JobState.STOPPING).select_related("resource").order_by("pk")
    for job in stopping:
        try:
            drivers.driver_of(job.resource).stop(job.name, GRACE_S)
        except ResourceUnreachable as error:
            resources.note_unreachable(resource=job.resource, error=error)


def stop_jobs(driver: ComputeDriver, names: Sequence[str]) -> None:
    """Tell these jobs to end."""
    for name in names:
        driver.stop(name, GRACE_S)
