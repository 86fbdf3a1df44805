"""Who uses whose quota: what queues hold beyond their quotas, and which quotas it is taken from."""

from collections.abc import Sequence
from dataclasses import dataclass


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
