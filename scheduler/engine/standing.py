"""By what right others hold what a job waits for: the class of its wait, the shares that say so, and loans."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scheduler.engine.decisions import WaitCode
from scheduler.engine.jobs import Job
from scheduler.engine.queues import GPU, QueueState
from scheduler.engine.session import Session

STARVED_AFTER_S = 900.0
"""A queue below its quota that waits so long, while others hold more than their share, is starved."""


class WaitClass(StrEnum):
    """What stands between a job and its start, as a name for programs."""

    BY_RIGHT = "by_right"
    BORROWED = "borrowed"
    STARVED = "starved"
    OVER_SHARE = "over_share"
    QUOTA = "quota"
    FRAGMENTED = "fragmented"
    LIMIT = "limit"
    AFFINITY = "affinity"
    GUARD = "guard"
    STOPPING = "stopping"
    NODES = "nodes"
    NEVER = "never"
    NEXT_CYCLE = "next_cycle"
    DATA = "data"


_OF_CODE = {
    WaitCode.BEYOND_QUOTA: WaitClass.QUOTA,
    WaitCode.BEYOND_LIMIT: WaitClass.LIMIT,
    WaitCode.NOT_ALLOWED: WaitClass.AFFINITY,
    WaitCode.NOT_TOGETHER: WaitClass.AFFINITY,
    WaitCode.RESERVED: WaitClass.GUARD,
    WaitCode.UNREACHABLE: WaitClass.NODES,
    WaitCode.DRAINED: WaitClass.NODES,
    WaitCode.NEVER_FITS: WaitClass.NEVER,
    WaitCode.INCOMPLETE: WaitClass.NEVER,
    WaitCode.NEXT_CYCLE: WaitClass.NEXT_CYCLE,
}


@dataclass(frozen=True, slots=True)
class Share:
    """What a queue holds and may hold of the resource that a job waits for: thousandths of GPUs, or millicores.

    A quota that is None is without bound.
    """

    queue_id: str
    held: float
    quota: float | None
    fair: float

    @property
    def is_over_quota(self) -> bool:
        """Whether it holds more than its quota."""
        return self.quota is not None and self.held > self.quota

    @property
    def is_borrowing(self) -> bool:
        """Whether it holds more than its quota and its fair share."""
        return self.is_over_quota and self.held > self.fair


def share_of(queue: QueueState, resource: int = GPU) -> Share:
    """Return the share of a queue."""
    return Share(queue.view.id, queue.held[resource], queue.view.quota[resource], queue.fair[resource])


def resource_of(job: Job) -> int:
    """Return the resource that decides about a job: GPUs if it asks for any, else CPU."""
    return GPU if any(pod.shape.wants_gpu for pod in job.pods) else GPU + 1


def classify(
    code: str, own: Share, asked: float, holders: Sequence[Share], *, waited_s: float = 0.0, free: float = 0.0
) -> WaitClass:
    """Return the class of a wait of which the cycle has told the code (empty: nothing yet).

    `asked` is what the job asks for, `holders` are the shares of those who hold it, and `free` is how much of it is
    idle on the nodes that could serve the job, wherever it lies.
    """
    if code in _OF_CODE:
        return _OF_CODE[WaitCode(code)]
    if free >= asked > 0:
        return WaitClass.FRAGMENTED
    if own.held and own.quota is not None and own.held + asked > max(own.quota, own.fair):
        return WaitClass.OVER_SHARE
    if not any(share.is_borrowing for share in holders if share.queue_id != own.queue_id):
        return WaitClass.BY_RIGHT
    is_within_quota = own.quota is None or own.held + asked <= own.quota
    return WaitClass.STARVED if is_within_quota and waited_s >= STARVED_AFTER_S else WaitClass.BORROWED


def free_milli(session: Session, job: Job) -> int:
    """Return the thousandths of GPUs that are idle on the open nodes which serve a job."""
    requests = {pod.shape.request for pod in job.pods}
    nodes = [node for node in session.ready if any(node.view.serves(request) for request in requests)]
    return sum(node.free_milli() for node in nodes)


@dataclass(frozen=True, slots=True)
class Holding:
    """What a project's queue is guaranteed and holds, in thousandths of GPUs; `parent_id` is its department."""

    queue_id: str
    parent_id: str | None
    quota: int
    held: int


@dataclass(frozen=True, slots=True)
class Loan:
    """GPUs that one queue holds of the quota of another, in thousandths; without a lender, such as no quota covers."""

    lender_id: str | None
    borrower_id: str
    gpu_milli: int


def pair_loans(holdings: Sequence[Holding], total_milli: int) -> list[Loan]:
    """Return the loans of a pool.

    What no quota covers is used first: nobody can claim it. The rest comes from the same department where that has
    some, then from others; of equals in the order that is given.
    """
    owed = {each.queue_id: each.held - each.quota for each in holdings if each.held > each.quota}
    idle = {each.queue_id: each.quota - each.held for each in holdings if each.held < each.quota}
    uncovered = max(0, total_milli - sum(each.quota for each in holdings))
    loans = []

    def lend(lender_id: str | None, borrower_id: str, there: int) -> int:
        amount = min(there, owed[borrower_id])
        if amount:
            loans.append(Loan(lender_id, borrower_id, amount))
            owed[borrower_id] -= amount
        return amount

    for borrower_id in owed:
        uncovered -= lend(None, borrower_id, uncovered)
    parents = {each.queue_id: each.parent_id for each in holdings}
    for is_near in (True, False):
        for borrower_id in list(owed):
            for lender_id in list(idle):
                if not owed[borrower_id]:
                    break
                if not is_near or parents[lender_id] == parents[borrower_id]:
                    idle[lender_id] -= lend(lender_id, borrower_id, idle[lender_id])
                    if not idle[lender_id]:
                        del idle[lender_id]
    return loans
