"""Fair share: how one resource is divided among queues, quotas first, then the rest by weight.

Each resource is divided by itself. Shares are whole units (whole GPUs), except where a queue asks for less.
The rules are those of the open-sourced Run:AI scheduler's division.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True, slots=True)
class ShareRequest:
    """What one queue may count on and asks for. `quota` None is without bound; equal claims go by `rank`.

    `used` is the queue's part (0 to 1) of what was used lately, where past use counts.
    """

    queue_id: str
    quota: int | None
    requested: int
    weight: float
    rank: tuple[object, ...] = ()
    priority: int = 100
    used: float = 0.0


def divide(total: int, claims: Sequence[ShareRequest], *, unit: int = 1, usage_pull: float = 0.0) -> dict[str, int]:
    """Return each queue's fair share of `total`: never more than it requests.

    Quotas are given even when they add up to more than there is; then nothing is left to divide by weight.
    """
    shares = {claim.queue_id: min(claim.requested, total if claim.quota is None else claim.quota) for claim in claims}
    return divide_surplus(total - sum(shares.values()), claims, shares, unit=unit, usage_pull=usage_pull)


def divide_surplus(
    pool: int, claims: Sequence[ShareRequest], shares: Mapping[str, int], *, unit: int = 1, usage_pull: float = 0.0
) -> dict[str, int]:
    """Return `shares` raised by what `pool` holds, poured out by weight, higher priorities first.

    What rounding to whole units leaves at one priority is offered to the lower ones; what nobody takes goes unit by
    unit to the largest remainders.
    """
    result = dict(shares)
    ordered = sorted((claim for claim in claims if claim.weight > 0), key=lambda claim: (claim.rank, claim.queue_id))
    ordered.sort(key=lambda claim: -claim.priority)
    crumbs: list[list[tuple[float, ShareRequest]]] = []
    for _, level in groupby(ordered, key=lambda claim: claim.priority):
        pool, remainders = _pour(pool, list(level), result, unit, usage_pull)
        crumbs.append(sorted(remainders, key=lambda pair: -pair[0]))
    for _, claim in (pair for level in crumbs for pair in level):
        given = min(unit, pool, claim.requested - result[claim.queue_id])
        result[claim.queue_id] += given
        pool -= given
    return result


def _pour(
    pool: int, level: list[ShareRequest], result: dict[str, int], unit: int, usage_pull: float
) -> tuple[int, list[tuple[float, ShareRequest]]]:
    """Raise the shares of one priority in rounds; return the rest, and which request was rounded down by how much."""
    remainders: dict[str, tuple[float, ShareRequest]] = {}
    while pool > 0 and (level := [claim for claim in level if claim.requested > result[claim.queue_id]]):
        weights = _pulled(level, usage_pull)
        total_weight = sum(weights)
        if total_weight <= 0:
            break
        poured, has_leftover = 0, False
        for claim, weight in zip(level, weights, strict=True):
            missing = claim.requested - result[claim.queue_id]
            fair = pool * weight / total_weight
            given = missing if missing <= fair else math.floor(fair / unit) * unit
            remainders.pop(claim.queue_id, None)
            if missing > fair > given:
                remainders[claim.queue_id] = (fair - given, claim)
            has_leftover |= missing < fair
            result[claim.queue_id] += given
            poured += given
        pool -= poured
        if not has_leftover:
            break
    return pool, list(remainders.values())


def _pulled(level: list[ShareRequest], usage_pull: float) -> list[float]:
    """Weights, lowered for those who used more than their part lately."""
    if not usage_pull:
        return [claim.weight for claim in level]
    total = sum(claim.weight for claim in level)
    parts = [claim.weight / total for claim in level]
    return [max(0.0, part + usage_pull * (part - claim.used)) for part, claim in zip(parts, level, strict=True)]
