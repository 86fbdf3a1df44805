"""What is known of the use of jobs with an idle limit, for those who connect to them and for the platform's checks.

Rows are changed while the caller holds them, or by one statement; whoever needs the job too locks it after its row.
"""

from collections.abc import Collection

from compute.engine.idleness import Use
from compute.models import Job, JobUse
from core import clock


def note_use(job_ids: Collection[str], used_by: Use) -> None:
    """Note that jobs are used now. One that has no idle limit needs no note."""
    JobUse.objects.filter(job__in=job_ids).update(used_at=clock.now(), used_by=used_by, warned_at=None)


def lock_use(job: Job) -> JobUse | None:
    """Return what is known of the present run of a job, held until the caller's transaction ends; None: nothing is."""
    return JobUse.objects.select_for_update().filter(job=job, token=job.token).first()
