"""Ending what may go on no longer: overdue work for good, and gangs that lost members and could not get them back."""

from dataclasses import dataclass

from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Job
from scheduler.engine.ledger import ACTIVE
from scheduler.engine.session import Cause, Session
from scheduler.engine.snapshot import PodState


def end_overdue(session: Session) -> None:
    """End every job that runs and has reached a limit of time; what of it still waits does so no more."""
    limited = {queue for queue in session.queues.values() if queue.has_time_limits}
    if not limited:
        return
    overdue = [
        (job, limit)
        for job in session.jobs.values()
        if job.queue in limited and (limit := reached_limit(job)) is not None
    ]
    for job, limit in sorted(overdue, key=lambda pair: (pair[0].view.rank, pair[0].view.id)):
        if any(pod.state is PodState.RUNNING for pod in job.pods):
            session.cause = Cause(limit.code)
            session.end(job)


@dataclass(frozen=True, slots=True)
class ReachedLimit:
    """A limit of time that a job has reached, in seconds."""

    code: StopCode
    lasted_s: float
    at_most_s: float


def reached_limit(job: Job) -> ReachedLimit | None:
    """Return the limit of its queues that a job has reached, if any, by running or by not using its GPUs."""
    rules = job.queue.rules_for(job.view)
    for code, lasted_s, at_most_s in (
        (StopCode.TIME_LIMIT, job.view.running_for_s, rules.run_at_most_s),
        (StopCode.IDLE_LIMIT, job.view.idle_for_s, rules.idle_at_most_s),
    ):
        if lasted_s is not None and at_most_s is not None and lasted_s >= at_most_s:
            return ReachedLimit(code, lasted_s, at_most_s)
    return None


def evict_stale_gangs(session: Session) -> None:
    """Stop what is left of every gang that has been below its minimum for longer than its grace."""
    session.cause = Cause(StopCode.STALE)
    for job in sorted(session.partial.values(), key=lambda job: job.view.id):
        active = job.active_pods()
        if not active or any(pod.state is PodState.SUCCEEDED for pod in job.pods):
            continue
        grace = job.view.stale_grace_s if job.view.stale_grace_s is not None else session.policy.stale_grace_s
        if grace < 0 or (job.view.stale_for_s or 0) < grace:
            continue
        for pod in active:
            if pod.state in ACTIVE:
                session.evict(pod)
