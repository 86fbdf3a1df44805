"""A job that is about to reach its idle limit is kept by a person, who says that it is still needed."""

from django.db import transaction

from accounts import audit
from accounts.permissions import Actor, require
from compute import permissions
from compute.engine.idleness import Use
from compute.engine.states import JobState
from compute.errors import JobNotRunning, NoIdleLimit
from compute.models import Job
from compute.services import journal, uses
from core import clock


@transaction.atomic
def keep_job(*, actor: Actor, job: Job) -> Job:
    """Count a job as used now, so that it may be idle for as long as its limit says once more.

    Raises JobNotRunning, also for one that is being stopped, and NoIdleLimit.
    """
    require(actor, permissions.SUBMIT_JOBS, job.project_id)
    use = uses.lock_use(job)
    (locked,) = journal.lock_jobs([job.pk])
    if locked.state != JobState.RUNNING:
        raise JobNotRunning(f"{job.label} does not run: it is {locked.state}.")
    if use is None or locked.token != use.token:
        raise NoIdleLimit(f"{job.label} has no idle limit.")
    uses.note_use([job.pk], Use.PERSON)
    journal.record_notes({job.pk: f"{actor.name} keeps the job."}, now=clock.now(), locked=[locked])
    audit.record(actor, "compute.keep_job", job)
    job.refresh_from_db()
    return job
