"""A job is stopped so that others can have its resources, and queued again when its owner says so."""

from django.db import transaction

from accounts import audit
from accounts.permissions import Actor
from compute import permissions
from compute.engine.states import JobState
from compute.errors import JobNotSuspended
from compute.models import Job
from compute.services import journal, queueing, submissions
from core import clock, tasks


@transaction.atomic
def suspend_job(*, actor: Actor, job: Job) -> Job:
    """Stop a job, with its parts, and keep it out of the queue until it is resumed; not one that has ended.

    One that runs is asked to end, and killed after a grace; one that succeeds meanwhile has succeeded. The cached
    commits that it reads stay held. Raises JobBelongsToRun and JobIsPart.
    """
    submissions.require_own(actor=actor, job=job, permission=permissions.CANCEL_JOBS)
    reason = f"{actor.name} suspended the job."
    steps = [
        journal.Step(
            each.pk,
            each.token,
            JobState.SUSPENDED if each.state == JobState.PENDING else JobState.SUSPENDING,
            reason,
            {"reason": reason, "parts_running": 0},
        )
        for each in journal.lock_jobs(journal.lock_with_parts(job))
    ]
    if journal.record_steps(steps, now=clock.now()):
        audit.record(actor, "compute.suspend_job", job)
        tasks.enqueue_on_commit("compute.stop")
    job.refresh_from_db()
    return job


@transaction.atomic
def resume_job(*, actor: Actor, job: Job) -> Job:
    """Queue a suspended job again, or its parts, behind those that wait already. It starts anew.

    One that has not stopped yet is queued once it has, in its old place. Raises JobBelongsToRun, JobIsPart, and
    JobNotSuspended for one that nobody suspended.
    """
    submissions.require_own(actor=actor, job=job, permission=permissions.SUBMIT_JOBS)
    reason = f"{actor.name} resumed the job."
    locked = journal.lock_jobs(journal.lock_with_parts(job))
    (state,) = {each.state for each in locked if each.pk == job.pk}
    if state not in {JobState.SUSPENDING, JobState.SUSPENDED}:
        raise JobNotSuspended(f"{job.label} is not suspended: it is {state}.")
    suspended = [each for each in locked if each.state == JobState.SUSPENDED]
    stopping = [each for each in locked if each.state == JobState.SUSPENDING]
    why = f"{reason} It is queued again once it has stopped."
    steps = [
        *(journal.Step(each.pk, each.token, JobState.PENDING, reason, {"reason": ""}) for each in suspended),
        *(journal.Step(each.pk, each.token, JobState.LEAVING, why, {"reason": why}) for each in stopping),
    ]
    journal.record_steps(steps, now=clock.now(), locked=locked)
    # What it reads is held, so it is still ready; a gate that was never opened is opened as for any other job.
    for each in (
        Job.objects.filter(pk__in=[each.pk for each in suspended], gate="").select_related("template").order_by("pk")
    ):
        queueing.queue_again(each)
        Job.objects.filter(pk=each.pk).update(workload=each.workload_id)
    job.refresh_from_db()
    audit.record(actor, "compute.resume_job", job)
    return job
