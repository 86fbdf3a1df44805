"""Forecasts held against what happened: how often they held, and how much longer or shorter they should have been.

The engine foresees no job that is submitted later, so waits come out longer than it says. By how much is learnt from
the forecasts of the past: with as many of them at least as `ENOUGH`, a new one is stretched so that it would have held
for one half and for nine tenths of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

ENOUGH = 30
_MOST_STRETCH = 20.0
_LEAST_S = 1.0
"""Waits below a second are no matter of forecasts, so they count as one."""


@dataclass(frozen=True, slots=True)
class Score:
    """One forecast, in seconds from when it was made: what the engine said, what was told, and when the job started."""

    raw_likely_s: float
    raw_late_s: float | None
    likely_s: float
    late_s: float | None
    waited_s: float


@dataclass(frozen=True, slots=True)
class Coverage:
    """Of `count` forecasts, the parts that held: one half of P50 should, nine tenths of P90 (None: none was told)."""

    count: int
    likely: float
    late: float | None


@dataclass(frozen=True, slots=True)
class Stretch:
    """What P50 and P90 are multiplied with."""

    likely: float = 1.0
    late: float = 1.0


def measure(scores: Sequence[Score]) -> Coverage | None:
    """Return how often forecasts held; None without any."""
    if not scores:
        return None
    late = [score.waited_s <= score.late_s for score in scores if score.late_s is not None]
    likely = [score.waited_s <= score.likely_s for score in scores]
    return Coverage(len(scores), sum(likely) / len(likely), sum(late) / len(late) if late else None)


@dataclass(frozen=True, slots=True)
class Started:
    """Which parts of the jobs had started after so many times the P50, and the P90, that they were told."""

    multiples: Sequence[float]
    of_likely: Sequence[float]
    of_late: Sequence[float]


def compare(scores: Sequence[Score], multiples: Sequence[float]) -> Started:
    """Return how waits compare with what was told. Jobs that were told no P90 are left out of its part."""

    def parts(told: Sequence[tuple[float, float]]) -> list[float]:
        started = [sum(waited_s <= times * told_s for waited_s, told_s in told) for times in multiples]
        return [count / len(told) for count in started] if told else []

    likely = [(score.waited_s, score.likely_s) for score in scores]
    late = [(score.waited_s, score.late_s) for score in scores if score.late_s is not None]
    return Started(multiples, parts(likely), parts(late))


def learn(scores: Sequence[Score]) -> Stretch:
    """Return how new forecasts are stretched, by those of the past; not at all where there are too few."""
    late = [_ratio(score.waited_s, score.raw_late_s) for score in scores if score.raw_late_s is not None]
    likely = [_ratio(score.waited_s, score.raw_likely_s) for score in scores]
    return Stretch(_quantile(likely, 0.5), _quantile(late, 0.9))


def _ratio(waited_s: float, forecast_s: float) -> float:
    return min(_MOST_STRETCH, max(waited_s, _LEAST_S) / max(forecast_s, _LEAST_S))


def _quantile(ratios: Sequence[float], part: float) -> float:
    if len(ratios) < ENOUGH:
        return 1.0
    return sorted(ratios)[min(math.ceil(part * (len(ratios) + 1)), len(ratios)) - 1]
