"""Who has run too shortly, or was evicted too often, to be taken away, and who has run or stood idle for too long."""

from dataclasses import dataclass

from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Job
from scheduler.engine.rules.reclaimable import levelled
from scheduler.engine.session import Session


def may_reclaim(session: Session, job: Job, other: Job) -> bool:
    """Return whether a job of another queue has run long enough to be taken, and was not taken too often."""
    if session.policy.keeps_promises and other.view.evictions >= session.policy.evictions_at_most:
        return False
    if not session.policy.min_runtime or other.view.running_for_s is None:
        return True
    _, theirs = levelled(job.queue, other.queue)
    for queue in theirs.line:
        least = queue.view.reclaim_min_runtime_s
        if least is not None:
            return other.view.running_for_s >= least
    return True


def may_preempt(session: Session, other: Job) -> bool:
    """Return whether a job of the same queue has run long enough to be pushed out."""
    if not session.policy.min_runtime or other.view.running_for_s is None:
        return True
    for queue in other.queue.line:
        least = queue.view.preempt_min_runtime_s
        if least is not None:
            return other.view.running_for_s >= least
    return True


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
