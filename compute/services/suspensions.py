"""A job is stopped so that others can have its resources, and queued again when its owner says so."""

from django.db import transaction

from accounts import audit
from accounts.actor import Actor
from compute import permissions
from compute.engine.states import JobState
from compute.errors import JobNotSuspended
from compute.models import Job
from compute.services import journal, queueing, submissions
from core import clock, tasks


@transaction.atomic
def suspend_job(*, actor: Actor, job: Job) -> Job:
    """Stop a job and keep it out of the queue until it is resumed. Without effect on one that has ended.

    One that runs is asked to end, and killed after a grace; one that succeeds meanwhile has succeeded. The cached
    commits that it reads stay held. Raises JobBelongsToRun.
    """
    submissions.require_own(actor=actor, job=job, permission=permissions.CANCEL_JOBS)
    (locked,) = journal.lock_jobs([job.pk])
    to = JobState.SUSPENDED if locked.state == JobState.PENDING else JobState.SUSPENDING
    reason = f"{actor.name} suspended the job."
    step = journal.Step(locked.pk, locked.token, to, reason, {"reason": reason})
    if journal.record_steps([step], now=clock.now()):
        audit.record(actor, "compute.suspend_job", job)
        tasks.enqueue_on_commit("compute.stop")
    job.refresh_from_db()
    return job


@transaction.atomic
def resume_job(*, actor: Actor, job: Job) -> Job:
    """Queue a suspended job again, behind those that wait already. It starts anew.

    Raises JobBelongsToRun, and JobNotSuspended for one that is not, or has not stopped yet.
    """
    submissions.require_own(actor=actor, job=job, permission=permissions.SUBMIT_JOBS)
    (locked,) = journal.lock_jobs([job.pk])
    reason = f"{actor.name} resumed the job."
    step = journal.Step(locked.pk, locked.token, JobState.PENDING, reason, {"reason": ""})
    if locked.state != JobState.SUSPENDED or not journal.record_steps([step], now=clock.now()):
        raise JobNotSuspended(f"{job.label} is not suspended: it is {locked.state}.")
    job.refresh_from_db()
    # What it reads is held, so it is still ready; a gate that was never opened is opened as for any other job.
    if not job.gate:
        queueing.queue_again(job)
        Job.objects.filter(pk=job.pk).update(workload=job.workload_id)
    audit.record(actor, "compute.resume_job", job)
    return job
