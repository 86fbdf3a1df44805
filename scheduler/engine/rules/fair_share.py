"""Fair share: how one resource is divided among queues, quotas first, then the rest by weight.

Each resource is divided by itself. Shares are whole units (whole GPUs), except where a queue asks for less.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """What one queue may count on and asks for. `quota` None is without bound; equal claims go by `rank`."""

    queue_id: str
    quota: int | None
    requested: int
    weight: float
    rank: tuple[object, ...] = ()


def divide(total: int, claims: Sequence[Claim], *, unit: int = 1) -> dict[str, int]:
    """Return each queue's fair share of `total`: never more than it requests.

    Quotas are given even when they add up to more than there is; then nothing is left to divide by weight.
    """
    shares = {claim.queue_id: min(claim.requested, total if claim.quota is None else claim.quota) for claim in claims}
    return divide_surplus(total - sum(shares.values()), claims, shares, unit=unit)


def divide_surplus(pool: int, claims: Sequence[Claim], shares: Mapping[str, int], *, unit: int = 1) -> dict[str, int]:
    """Return `shares` raised by what `pool` holds, poured out by weight until it is empty or nobody wants more.

    A queue takes no more than it wants; what it leaves flows to the others in the next round. Each round gives whole
    units; the units that rounding left over go one by one to the largest remainders.
    """
    result = dict(shares)
    thirsty = sorted((claim for claim in claims if claim.weight > 0), key=lambda claim: (claim.rank, claim.queue_id))
    remainders: dict[str, float] = {}
    while pool > 0 and (thirsty := [claim for claim in thirsty if claim.requested > result[claim.queue_id]]):
        weights = sum(claim.weight for claim in thirsty)
        poured, has_leftover = 0, False
        for claim in thirsty:
            wanted = claim.requested - result[claim.queue_id]
            fair = pool * claim.weight / weights
            given = wanted if wanted <= fair else math.floor(fair / unit) * unit
            remainders[claim.queue_id] = 0 if wanted <= fair else fair - given
            has_leftover |= wanted < fair
            result[claim.queue_id] += given
            poured += given
        pool -= poured
        if not has_leftover:
            break
    by_remainder = sorted(
        (claim for claim in thirsty if remainders.get(claim.queue_id)), key=lambda c: -remainders[c.queue_id]
    )
    for claim in by_remainder:
        given = min(unit, pool, claim.requested - result[claim.queue_id])
        result[claim.queue_id] += given
        pool -= given
    return result
