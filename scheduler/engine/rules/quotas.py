"""What a queue may hold, and what it may take from others: limits, firm quotas, and the rules of reclaim.

A queue claims its fair share, never more. What it takes must lie beyond what the other side may hold, or, if the
claim stays within the claimant's quota, beyond the other side's quota. Jobs that just started, or were evicted often,
are protected.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeVar

from core.units import ONE_GPU
from scheduler.engine.jobs import Job, Pod
from scheduler.engine.lines import Unit
from scheduler.engine.queues import GPU, RESOURCES, QueueState
from scheduler.engine.session import Session, asks_for
from scheduler.engine.sharing import SharingRules
from scheduler.engine.snapshot import JobView, QueueView

Amounts = tuple[float, float, float]
T = TypeVar("T")

MUCH_MILLI = 8 * ONE_GPU
"""As many GPUs as most nodes have."""
_ALL = range(RESOURCES)


def may_hold(session: Session, job: Job, amounts: Sequence[float]) -> bool:
    """Return whether a job may hold so much more, at its queue and at every queue above."""
    if not session.policy.quotas:
        return True
    return within_limits(job, amounts) and within_firm_quota(job, amounts)


def within_limits(job: Job, amounts: Sequence[float]) -> bool:
    """Return whether no limit on the way up would be passed in a resource that is asked for."""
    for queue in job.line:
        held, limit = queue.held, queue.limit
        for resource in _ALL:
            if amounts[resource] and held[resource] + amounts[resource] > limit[resource]:
                return False
    return True


def within_firm_quota(job: Job, amounts: Sequence[float]) -> bool:
    """Return whether work that is not preemptible would stay within every quota on the way up."""
    if job.view.is_preemptible:
        return True
    for queue in job.line:
        firm, quota = queue.firm, queue.quota
        for resource in _ALL:
            if amounts[resource] and firm[resource] + amounts[resource] > quota[resource]:
                return False
    return True


def is_below_share(queue: QueueState) -> bool:
    """Return whether a queue holds less than its fair share of anything: otherwise none of its jobs may claim."""
    return any(held < share for held, share in zip(queue.held, queue.fair, strict=True))


def may_claim(session: Session, job: Job, pods: Sequence[Pod]) -> bool:
    """Return whether a job's queue would stay within its fair share, and firm work within the quota."""
    amounts = session.charge_all(pods)
    queue = job.queue
    return all(not amounts[r] or queue.held[r] + amounts[r] <= queue.fair[r] for r in _ALL) and within_firm_quota(
        job, amounts
    )


def claimed_milli(queue: QueueState) -> float:
    """Return the GPUs that all waiting jobs of a queue claim together, in thousandths: within its fair share."""
    return min(queue.waiting[GPU], *(above.fair[GPU] - above.held[GPU] for above in queue.line))


def claims_much(queue: QueueState) -> bool:
    """Return whether a queue claims so many GPUs that a claim delay would not see them become free by themselves."""
    return claimed_milli(queue) >= MUCH_MILLI


def levelled(claimant: QueueState, other: QueueState) -> tuple[QueueState, QueueState]:
    """Return the two ancestors just below the lowest common one."""
    for ours, theirs in zip(claimant.path, other.path, strict=False):
        if ours is not theirs:
            break
    return ours, theirs


def stays_within_quota(queue: QueueState, amounts: Sequence[float]) -> bool:
    """Return whether a queue with so much more would hold no more than its quota of anything."""
    return all(held + more <= quota for held, more, quota in zip(queue.held, amounts, queue.quota, strict=True))


def is_of_surplus(queue: QueueState, amounts: Sequence[float], last: Sequence[float]) -> bool:
    """Return whether the last part of what is asked for begins where the quota of something in it is held already."""
    return any(
        part and held + more - part >= quota
        for held, more, part, quota in zip(queue.held, amounts, last, queue.quota, strict=True)
    )


def is_worth_trying(job: Job, amounts: Sequence[float], other: QueueState) -> bool:
    """Return whether work of another queue could be taken at all: a cheap filter."""
    ours, theirs = levelled(job.queue, other)
    if not stays_within_quota(ours, amounts):
        return any(theirs.held[r] > theirs.may_hold[r] for r in _ALL)
    needs = asks_for(amounts)
    return any(theirs.held[r] > theirs.quota[r] for r in needs) or not any(
        theirs.held[r] < theirs.quota[r] < inf for r in needs
    )


def may_be_enough(session: Session, job: Job, pods: Sequence[Pod]) -> bool:
    """Return whether the GPUs that others may lose, and those that are free, could be enough: never no by mistake.

    A queue loses units only while it is beyond its bound, so at most what it holds beyond it and a part of one unit.
    """
    demand = session.charge_all(pods)
    if not demand[GPU] or any(pod.shape.counts_slices for pod in pods):
        return True
    supply: float = session.free_milli()
    sides = {theirs.view.id: (ours, theirs) for ours, theirs in _sides(session, job)}
    for ours, theirs in sides.values():
        is_within = stays_within_quota(ours, demand)
        bounds = [min(pair) if is_within else pair[0] for pair in zip(theirs.may_hold, theirs.quota, strict=True)]
        if any(theirs.held[r] > bounds[r] for r in _ALL if r != GPU):
            return True
        if theirs.held[GPU] > bounds[GPU]:
            supply += min(theirs.held[GPU] - theirs.firm[GPU], theirs.held[GPU] - bounds[GPU] + theirs.largest - 1)
    return supply >= demand[GPU]


def _sides(session: Session, job: Job) -> Iterator[tuple[QueueState, QueueState]]:
    for other in session.queues.values():
        if not other.children and other is not job.queue:
            yield levelled(job.queue, other)


class ReclaimCheck:
    """One claim as it stood before it was played through, to judge each unit by what its queue held then."""

    def __init__(self, session: Session, job: Job, pods: Sequence[Pod], units: Sequence[Unit]) -> None:
        self._job = job
        self._amounts = session.charge_all(pods)
        self._charges = {pod: session.charge_of(pod) for unit in units for pod in unit}
        self._before: dict[str, Amounts] = {}
        self._siblings: list[tuple[QueueState, Sequence[QueueState]]] = []
        for queue in job.line:
            siblings = queue.parent.children if queue.parent else [q for q in session.queues.values() if not q.parent]
            self._siblings.append((queue, siblings))
        for queue in {q for unit in units for q in unit[0].job.line} | set(job.line):
            self._before[queue.view.id] = (queue.held[0], queue.held[1], queue.held[2])

    def is_allowed(self, lost: Sequence[Unit]) -> bool:
        """Return whether the job may take these units."""
        left: dict[str, list[float]] = {}
        involved = set(asks_for(self._amounts))
        for unit in lost:
            ours, theirs = levelled(self._job.queue, unit[0].job.queue)
            held = left.setdefault(theirs.view.id, list(self._before[theirs.view.id]))
            if not (_beyond(held, theirs.may_hold) or (self._stays_within_quota(ours) and _beyond(held, theirs.quota))):
                return False
            for pod in unit:
                charge = self._charges[pod]
                involved.update(asks_for(charge))
                for queue in _up_to(pod.job.queue, theirs):
                    rest = left.setdefault(queue.view.id, list(self._before[queue.view.id]))
                    for r in _ALL:
                        rest[r] -= charge[r]
        return self._keeps_balance(left, involved)

    def _stays_within_quota(self, queue: QueueState) -> bool:
        held = self._before[queue.view.id]
        return all(held[r] + self._amounts[r] <= queue.quota[r] for r in _ALL)

    def _keeps_balance(self, left: dict[str, list[float]], involved: set[int]) -> bool:
        """Return whether nobody beyond its share takes from a sibling that is no further beyond its own."""
        for queue, siblings in self._siblings:
            held = self._before[queue.view.id]
            for r in involved:
                ours = _saturation(held[r] + self._amounts[r], queue.fair[r])
                if ours > 1 and any(
                    sibling is not queue
                    and sibling.view.id in left
                    and sibling.fair[r] > 0
                    and ours >= _saturation(left[sibling.view.id][r], sibling.fair[r])
                    for sibling in siblings
                ):
                    return False
        return True


def _up_to(queue: QueueState, last: QueueState) -> list[QueueState]:
    path = []
    for above in queue.line:
        path.append(above)
        if above is last:
            break
    return path


def _beyond(held: Sequence[float], bounds: Sequence[float]) -> bool:
    return any(have > bound for have, bound in zip(held, bounds, strict=True))


def _saturation(held: float, share: float) -> float:
    if share == inf:
        return 0.0
    if share == 0:
        return inf if held > 0 else 0.0
    return held / share


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
        evictions = min(evictions, _first_rule(own, policy.sharing.surplus_evictions_at_most))
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
    return _first_rule((above.view.preempt_min_runtime_s for above in queue.line), 0.0)


def _reclaim_min_runtime_s(session: Session, queue: QueueState) -> float:
    own = (above.view.reclaim_min_runtime_s for above in queue.line)
    return _first_rule(own, session.policy.sharing.reclaim_min_runtime_s)


def _surplus_min_runtime_s(session: Session, queue: QueueState) -> float:
    own = (above.view.surplus_min_runtime_s for above in queue.line)
    return _first_rule(own, session.policy.sharing.surplus_min_runtime_s)


def _evictions_at_most(session: Session, queue: QueueState) -> int:
    own = (above.view.evictions_at_most for above in queue.line)
    return _first_rule(own, session.policy.sharing.evictions_at_most)


def claim_delay_s(session: Session, queue: QueueState, job: JobView) -> float:
    """Return for how long a job of a queue takes nothing from others after its wait began."""
    return split_delay_s(queue_claim_delay_s([above.view for above in queue.line], session.policy.sharing), job)


def queue_claim_delay_s(line: Iterable[QueueView], rules: SharingRules) -> float:
    """Return the claim delay that holds in a queue; `line` leads up from it."""
    return _first_rule((queue.claim_delay_s for queue in line), rules.claim_delay_s)


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


def _first_rule(rules: Iterable[T | None], default: T) -> T:
    """Return the first rule that a queue, or one above it, has; the default where none has any."""
    return next((rule for rule in rules if rule is not None), default)
