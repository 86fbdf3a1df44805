"""When a queue may take work from another: the rules of reclaim.

A queue claims its fair share, never more. What it takes must lie beyond what the other side may hold, or, if the
claim stays within the claimant's quota, beyond the other side's quota.
"""

from collections.abc import Iterator, Sequence
from math import inf

from core.units import ONE_GPU
from scheduler.engine.jobs import Job, Pod
from scheduler.engine.queues import GPU, RESOURCES, QueueState
from scheduler.engine.rules.limits import within_firm_quota
from scheduler.engine.session import Session, asks_for
from scheduler.engine.victims import Unit

Amounts = tuple[float, float, float]

MUCH_MILLI = 8 * ONE_GPU
"""As many GPUs as most nodes have."""


def is_below_share(queue: QueueState) -> bool:
    """Return whether a queue holds less than its fair share of anything: otherwise none of its jobs may claim."""
    return any(held < share for held, share in zip(queue.held, queue.fair, strict=True))


def may_claim(session: Session, job: Job, pods: Sequence[Pod]) -> bool:
    """Return whether a job's queue would stay within its fair share, and firm work within the quota."""
    amounts = session.charge_all(pods)
    queue = job.queue
    return all(
        not amounts[r] or queue.held[r] + amounts[r] <= queue.fair[r] for r in range(RESOURCES)
    ) and within_firm_quota(job, amounts)


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
        return any(theirs.held[r] > theirs.may_hold[r] for r in range(RESOURCES))
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
        if any(theirs.held[r] > bounds[r] for r in range(RESOURCES) if r != GPU):
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
                    for r in range(RESOURCES):
                        rest[r] -= charge[r]
        return self._keeps_balance(left, involved)

    def _stays_within_quota(self, queue: QueueState) -> bool:
        held = self._before[queue.view.id]
        return all(held[r] + self._amounts[r] <= queue.quota[r] for r in range(RESOURCES))

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
