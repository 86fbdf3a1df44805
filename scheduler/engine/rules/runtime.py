"""Who has run too shortly, or was evicted too often, to be taken away, and who has run or stood idle for too long."""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Job
from scheduler.engine.queues import QueueState
from scheduler.engine.rules.reclaimable import is_of_surplus, levelled
from scheduler.engine.session import Session
from scheduler.engine.snapshot import Policy


def least_before_reclaim(
    session: Session, job: Job, amounts: Sequence[float], last: Sequence[float], queue: QueueState
) -> float:
    """Return for how long work of another queue has to run before it may be taken for these amounts.

    A quota is a promise that is kept soon; what lies beyond both quotas may stay for longer with who has it.
    """
    if not session.policy.min_runtime:
        return 0.0
    ours, theirs = levelled(job.queue, queue)
    bounds = (above.view.reclaim_min_runtime_s for above in theirs.line)
    least_s = next((bound for bound in bounds if bound is not None), 0.0)
    return max(least_s, session.policy.surplus_min_runtime_s) if is_of_surplus(ours, amounts, last) else least_s


def may_reclaim(policy: Policy, other: Job, least_s: float) -> bool:
    """Return whether a job of another queue has run long enough to be taken, and was not taken too often."""
    if policy.keeps_promises and other.view.evictions >= policy.evictions_at_most:
        return False
    return other.view.running_for_s is None or other.view.running_for_s >= least_s


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
