"""Forecasts held against what happened: how often they held, and how new ones are corrected so that they will.

The engine foresees no job that is submitted later, so waits come out longer than it says: by little where a job waits
by right, by much where it waits beyond its share. That is learnt online, from forecasts whose jobs have started:

- A new forecast is multiplied as the past ones like it should have been. That is split conformal prediction (Vovk,
  Gammerman, Shafer, "Algorithmic Learning in a Random World", 2005) among neighbours (Lei, Wasserman,
  "Distribution-free prediction bands", JRSS B 76, 2014): the same class of wait, and nearly as long by the engine.
- What is alike today may not be so tomorrow, so the part that is aimed at moves against the misses: after one that did
  not hold it rises, after one that held it falls (Gibbs, Candes, "Adaptive Conformal Inference Under Distribution
  Shift", NeurIPS 2021). So in the long run one half and nine tenths hold, whatever the cluster does.

A new forecast is corrected by outcomes alone that are known when it is made.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

LIKELY, LATE = 0.5, 0.9

ENOUGH = 10
"""Forecasts whose outcome is known. Nine are the fewest of which nine tenths have a bound; fewer correct nothing."""

_LEAST_ALIKE, _MOST_ALIKE = 20, 100
_PART_ALIKE = 1 / 3
_STEP = 0.02
"""How far one outcome moves the part that is aimed at: 50 misses in a row move it from one half to nearly all."""

_LEAST_LEVEL, _MOST_LEVEL = 0.01, 0.99
_OFFSET_S = 60.0
"""Is added to both sides of a ratio: a wait of 30 s where 1 s was told is not thirty times too long."""


@dataclass(frozen=True, slots=True)
class Score:
    """One forecast, in seconds from when it was made: what the engine said, what was told, and when the job started.

    None: nothing was said of P90. `wait_class` is why it waited.
    """

    raw_likely_s: float
    raw_late_s: float | None
    likely_s: float
    late_s: float | None
    waited_s: float
    wait_class: str = ""

    def held(self, told_s: float) -> bool:
        """Return whether the job had started after so many seconds."""
        return self.waited_s <= told_s


@dataclass(frozen=True, slots=True)
class Levels:
    """Which part of past forecasts a new one is to cover, so that P50 and P90 hold in the end."""

    likely: float = LIKELY
    late: float = LATE

    def after(self, score: Score) -> "Levels":
        """Return the levels after one more forecast whose outcome is known."""
        likely = _bounded(self.likely + _STEP * (LIKELY - score.held(score.likely_s)))
        late = self.late if score.late_s is None else self.late + _STEP * (LATE - score.held(score.late_s))
        return Levels(likely, _bounded(late))


@dataclass(frozen=True, slots=True)
class Coverage:
    """Of `count` forecasts, the parts that held: one half of P50 should, nine tenths of P90 (None: none was told).

    `raw_` are the parts that would have held without correction.
    """

    count: int
    likely: float
    late: float | None
    raw_likely: float
    raw_late: float | None


def measure(scores: Sequence[Score]) -> Coverage | None:
    """Return how often forecasts held; None without any."""
    if not scores:
        return None
    return Coverage(
        len(scores),
        sum(score.held(score.likely_s) for score in scores) / len(scores),
        _part([score.held(score.late_s) for score in scores if score.late_s is not None]),
        sum(score.held(score.raw_likely_s) for score in scores) / len(scores),
        _part([score.held(score.raw_late_s) for score in scores if score.raw_late_s is not None]),
    )


def _part(held: Sequence[bool]) -> float | None:
    return sum(held) / len(held) if held else None


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


class Correction:
    """How new forecasts are corrected, by those whose outcome is known, the newest first; not at all by too few."""

    def __init__(self, scores: Sequence[Score], levels: Levels = Levels()) -> None:
        self._levels = levels
        self._likely = _Past((score.wait_class, score.raw_likely_s, score.waited_s) for score in scores)
        late = [(score.wait_class, score.raw_late_s, score.waited_s) for score in scores]
        self._late = _Past((name, late_s, waited_s) for name, late_s, waited_s in late if late_s is not None)

    @property
    def count(self) -> int:
        """By how many past forecasts new ones are corrected; 0: they are not."""
        return self._likely.count if self._likely.count >= ENOUGH else 0

    def of(self, likely_s: float, late_s: float, wait_class: str) -> tuple[float, float]:
        """Return P50 and P90 as they are to be told; infinite stays so, and what starts at once does."""
        if likely_s <= 0 or likely_s == math.inf:
            return likely_s, late_s
        likely_s = self._likely.correct(likely_s, wait_class, self._levels.likely)
        return likely_s, max(likely_s, self._late.correct(late_s, wait_class, self._levels.late))


_Pair = tuple[float, float]
"""What was said of a wait, and how long it was."""

_SAID = itemgetter(0)


class _Past:
    """What the engine said of past waits, and how long they were, for one of both quantiles."""

    def __init__(self, waits: Iterable[tuple[str, float, float]]) -> None:
        every, by_class = list[_Pair](), defaultdict[str, list[_Pair]](list)
        for wait_class, said_s, waited_s in waits:
            by_class[wait_class].append((said_s, waited_s))
            every.append((said_s, waited_s))
        # Of equal forecasts the newest stay first, and count first.
        self._all = sorted(every, key=_SAID)
        self._by_class = {
            name: sorted(pairs, key=_SAID) for name, pairs in by_class.items() if len(pairs) >= _LEAST_ALIKE
        }

    @property
    def count(self) -> int:
        return len(self._all)

    def correct(self, said_s: float, wait_class: str, level: float) -> float:
        """Return what to tell where the engine says so many seconds: at most that, or the longest wait like it."""
        if len(self._all) < ENOUGH or said_s == math.inf:
            return said_s
        alike = _nearest(self._by_class.get(wait_class, self._all), said_s)
        ratios = sorted((waited_s + _OFFSET_S) / (past_s + _OFFSET_S) for past_s, waited_s in alike)
        ratio = ratios[min(math.ceil(level * (len(ratios) + 1)), len(ratios)) - 1]
        longest_s = max(said_s, *(waited_s for _, waited_s in alike))
        return min(longest_s, max(0.0, (said_s + _OFFSET_S) * ratio - _OFFSET_S))


def _nearest(pairs: Sequence[_Pair], said_s: float) -> Sequence[_Pair]:
    """Return the pairs, which ascend by what was said, whose ratio to what is said now is nearest to one."""
    count = min(len(pairs), max(_LEAST_ALIKE, min(_MOST_ALIKE, int(len(pairs) * _PART_ALIKE))))
    high = low = bisect_left(pairs, said_s, key=_SAID)
    middle = (said_s + _OFFSET_S) ** 2
    while high - low < count:
        is_lower_next = low > 0 and (
            high == len(pairs) or (pairs[low - 1][0] + _OFFSET_S) * (pairs[high][0] + _OFFSET_S) >= middle
        )
        low, high = (low - 1, high) if is_lower_next else (low, high + 1)
    return pairs[low:high]


def _bounded(level: float) -> float:
    return min(_MOST_LEVEL, max(_LEAST_LEVEL, level))
