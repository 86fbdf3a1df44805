"""What a job used of its GPUs over time, in so few samples that those of a month fit into one row.

Once there are too many, neighbours are joined: the older a moment, the coarser what is known of it.
"""

from collections.abc import Sequence
from typing import NamedTuple

MOST = 400


class Reading(NamedTuple):
    """What was used around a moment, in seconds since 1970. None: not measured."""

    at_s: float
    percent: int | None
    memory_used_bytes: int | None


def append(history: Sequence[Reading], newest: Reading) -> list[Reading]:
    """Return a history with one more reading."""
    readings = [*history, newest]
    if len(readings) <= MOST:
        return readings
    pairs = zip(readings[:-1:2], readings[1:-1:2], strict=True)
    return [*(_join(earlier, later) for earlier, later in pairs), *readings[2 * ((len(readings) - 1) // 2) :]]


def _join(earlier: Reading, later: Reading) -> Reading:
    percents = [each.percent for each in (earlier, later) if each.percent is not None]
    sizes = [each.memory_used_bytes for each in (earlier, later) if each.memory_used_bytes is not None]
    return Reading(
        later.at_s, round(sum(percents) / len(percents)) if percents else None, max(sizes) if sizes else None
    )
