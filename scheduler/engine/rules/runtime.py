"""Which jobs are protected from eviction (they just started, or were evicted often), and which reached a time limit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Job
from scheduler.engine.queues import QueueState
from scheduler.engine.rules.reclaimable import is_of_surplus, levelled
from scheduler.engine.session import Session
from scheduler.engine.sharing import SharingRules, first_rule
from scheduler.engine.snapshot import JobView, QueueView


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
    is_surplus = is_of_surplus(levelled(job.queue, queue)[0], amounts, last)
    least_s = min_runtime_s(session, job, queue, is_surplus=is_surplus)
    evictions = _evictions_at_most(session, queue)
    if is_surplus:
        own = (above.view.surplus_evictions_at_most for above in queue.line)
        evictions = min(evictions, first_rule(own, policy.sharing.surplus_evictions_at_most))
    return EvictionProtection(least_s if policy.min_runtime else 0.0, evictions if policy.honors_reservations else inf)


def min_runtime_s(session: Session, claimant: Job, queue: QueueState, *, is_surplus: bool) -> float:
    """Return how long work of another queue has run before a claim may evict it."""
    _, theirs = levelled(claimant.queue, queue)
    least_s = _reclaim_min_runtime_s(session, theirs)
    return max(least_s, _surplus_min_runtime_s(session, queue)) if is_surplus else least_s


def min_runtimes_s(session: Session, queue: QueueState) -> list[float]:
    """Return the run times after which work of a queue is protected from fewer claims, also from those of its queue."""
    times_s = (
        _reclaim_min_runtime_s(session, queue),
        _surplus_min_runtime_s(session, queue),
        _preempt_min_runtime_s(queue),
    )
    return [time_s for time_s in times_s if time_s]


def _preempt_min_runtime_s(queue: QueueState) -> float:
    return first_rule((above.view.preempt_min_runtime_s for above in queue.line), 0.0)


def _reclaim_min_runtime_s(session: Session, queue: QueueState) -> float:
    own = (above.view.reclaim_min_runtime_s for above in queue.line)
    return first_rule(own, session.policy.sharing.reclaim_min_runtime_s)


def _surplus_min_runtime_s(session: Session, queue: QueueState) -> float:
    own = (above.view.surplus_min_runtime_s for above in queue.line)
    return first_rule(own, session.policy.sharing.surplus_min_runtime_s)


def _evictions_at_most(session: Session, queue: QueueState) -> int:
    own = (above.view.evictions_at_most for above in queue.line)
    return first_rule(own, session.policy.sharing.evictions_at_most)


def claim_delay_s(session: Session, queue: QueueState, job: JobView) -> float:
    """Return for how long a job of a queue takes nothing from others after its wait began."""
    return split_delay_s(queue_claim_delay_s([above.view for above in queue.line], session.policy.sharing), job)


def queue_claim_delay_s(line: Iterable[QueueView], rules: SharingRules) -> float:
    """Return the claim delay that holds in a queue; `line` leads up from it."""
    return first_rule((queue.claim_delay_s for queue in line), rules.claim_delay_s)


def split_delay_s(delay_s: float, job: JobView) -> float:
    """Return the claim delay of a job: a part of the one for one GPU.

    One GPU will soon be freed by the end of other work, and costs little while it is waited for. The more GPUs are
    claimed, the more are kept from their owner, and the less a wait frees them together.
    """
    return delay_s / max(1, sum(pod.request.gpus for pod in job.pods))


def may_move(session: Session, other: Job) -> bool:
    """Return whether a job may be stopped to be moved: the moves of one job are as limited as its evictions."""
    return not session.policy.honors_reservations or other.view.evictions < _evictions_at_most(session, other.queue)


def may_preempt(session: Session, other: Job) -> bool:
    """Return whether a job of the same queue has run long enough to be pushed out."""
    if not session.policy.min_runtime or other.view.running_for_s is None:
        return True
    return other.view.running_for_s >= _preempt_min_runtime_s(other.queue)


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
