"""Which jobs are protected from eviction (they just started, or were evicted often), and which reached a time limit."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Job
from scheduler.engine.queues import QueueState
from scheduler.engine.rules.reclaimable import is_of_surplus, levelled
from scheduler.engine.session import Session


@dataclass(frozen=True, slots=True)
class EvictionProtection:
    """Protects jobs that have run for less than `min_runtime_s`, or were evicted `max_evictions` times."""

    min_runtime_s: float
    max_evictions: float

    def protects(self, other: Job) -> bool:
        """Return whether a job may not be evicted."""
        ran_s = other.view.running_for_s
        return other.view.evictions >= self.max_evictions or (ran_s is not None and ran_s < self.min_runtime_s)


def protection_from(
    session: Session, job: Job, amounts: Sequence[float], last: Sequence[float], queue: QueueState
) -> EvictionProtection:
    """Return which jobs of another queue are protected from a claim of these amounts.

    A quota is served soon. What lies beyond both quotas may stay longer where it is, and does not use up all the
    evictions that a job has to bear.
    """
    policy = session.policy
    ours, theirs = levelled(job.queue, queue)
    is_surplus = is_of_surplus(ours, amounts, last)
    bounds = (above.view.reclaim_min_runtime_s for above in theirs.line)
    min_runtime_s = next((bound for bound in bounds if bound is not None), 0.0)
    if is_surplus:
        min_runtime_s = max(min_runtime_s, policy.surplus_min_runtime_s)
    evictions = policy.surplus_evictions_at_most if is_surplus else policy.evictions_at_most
    return EvictionProtection(
        min_runtime_s if policy.min_runtime else 0.0, evictions if policy.honors_reservations else inf
    )


def may_move(session: Session, other: Job) -> bool:
    """Return whether a job may be stopped to be moved: the moves of one job are as limited as its evictions."""
    policy = session.policy
    return not policy.honors_reservations or other.view.evictions < policy.evictions_at_most


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
