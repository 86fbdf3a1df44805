"""Guards of work: who has run too shortly, or was evicted too often, to be taken away."""

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
    for queue in theirs.upwards():
        least = queue.view.reclaim_min_runtime_s
        if least is not None:
            return other.view.running_for_s >= least
    return True


def may_preempt(session: Session, other: Job) -> bool:
    """Return whether a job of the same queue has run long enough to be pushed out."""
    if not session.policy.min_runtime or other.view.running_for_s is None:
        return True
    for queue in other.queue.upwards():
        least = queue.view.preempt_min_runtime_s
        if least is not None:
            return other.view.running_for_s >= least
    return True
