"""Forecasts held against what happened: how often they held, and how new ones are corrected so that they will.

The engine foresees no job that is submitted later, so waits come out longer than it says: by little where a job waits
by right, by much where it waits beyond its share. That is learnt online, from forecasts that were made before:

- A new forecast is multiplied as the past ones like it should have been. That is split conformal prediction (Vovk,
  Gammerman, Shafer, "Algorithmic Learning in a Random World", 2005) among neighbours (Lei, Wasserman,
  "Distribution-free prediction bands", JRSS B 76, 2014): the same class of wait, and nearly as long by the engine.
- In a burst the short waits end first. So those that go on count too, as at least so long as by now, by the
  product-limit estimate (Kaplan, Meier, JASA 53, 1958).
- What is alike today may not be so tomorrow, so the part that is aimed at moves against the misses: after one that did
  not hold it rises, after one that held it falls (Gibbs, Candes, "Adaptive Conformal Inference Under Distribution
  Shift", NeurIPS 2021). So in the long run one half and nine tenths hold, whatever the cluster does.

A new forecast is corrected by that alone which is known when it is made.
"""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from statistics import median

LIKELY, LATE = 0.5, 0.9

ENOUGH = 10
"""Forecasts whose outcome is known. Nine are the fewest of which nine tenths have a bound; fewer correct nothing."""

_LEAST_ALIKE, _MOST_ALIKE = 20, 100
_PART_ALIKE = 1 / 3
_LIKELY_STEP, _LATE_STEP = 0.05, 0.02
"""How far one outcome moves the part that is aimed at: 20 misses of P50 in a row move it from one half to nearly all.
That of P90 moves less: one miss in ten is as it should be."""

_LEAST_LEVEL, _MOST_LEVEL = 0.01, 0.99
_OFFSET_S = 60.0
"""Is added to both sides of a ratio: a wait of 30 s where 1 s was told is not thirty times too long."""


@dataclass(frozen=True, slots=True)
class Score:
    """One forecast, in seconds from when it was made: what the engine said, what was told, and when the job started.

    None: nothing was said of P90. `wait_class` is why it waited. `goes_on`: the job has waited for so long by now.
    """

    raw_likely_s: float
    raw_late_s: float | None
    likely_s: float
    late_s: float | None
    waited_s: float
    wait_class: str = ""
    goes_on: bool = False

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
        likely = _bounded(self.likely + _LIKELY_STEP * (LIKELY - score.held(score.likely_s)))
        late = self.late if score.late_s is None else self.late + _LATE_STEP * (LATE - score.held(score.late_s))
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
class Promised:
    """The forecasts that told a wait of `from_s` up to `to_s` seconds (None: any longer one), and how they held.

    `median_error_s` is by how much half of the starts missed P50 at most; None without any.
    """

    from_s: float
    to_s: float | None
    coverage: Coverage | None
    median_error_s: float | None


_PROMISES_S = (0.0, 60.0, 600.0, 3600.0)


def measure_by_promise(scores: Sequence[Score]) -> list[Promised]:
    """Return how forecasts held by the wait that they told."""
    promises = []
    for from_s, to_s in zip(_PROMISES_S, (*_PROMISES_S[1:], None), strict=True):
        within = [score for score in scores if from_s <= score.likely_s and (to_s is None or score.likely_s < to_s)]
        errors = [abs(score.waited_s - score.likely_s) for score in within]
        promises.append(Promised(from_s, to_s, measure(within), median(errors) if errors else None))
    return promises


@dataclass(frozen=True, slots=True)
class Started:
    """Which parts of the jobs had started after so many times the P50, and the P90, that they were told."""

    multiples: Sequence[float]
    of_likely: Sequence[float]
    of_late: Sequence[float]


def compare(scores: Sequence[Score], multiples: Sequence[float]) -> Started:
    """Return how waits compare with what was told. Jobs that were told no P90 are left out of its part."""

    def parts(pairs: Sequence[tuple[float, float]]) -> list[float]:
        started = [sum(waited_s <= times * told_s for waited_s, told_s in pairs) for times in multiples]
        return [count / len(pairs) for count in started] if pairs else []

    likely = [(score.waited_s, score.likely_s) for score in scores]
    late = [(score.waited_s, score.late_s) for score in scores if score.late_s is not None]
    return Started(multiples, parts(likely), parts(late))


class Correction:
    """How new forecasts are corrected, by past ones, of equal ones the newest first; not at all by too few."""

    def __init__(self, scores: Sequence[Score], levels: Levels = Levels()) -> None:
        self._levels = levels
        self._likely = _Past([(score, score.raw_likely_s) for score in scores])
        self._late = _Past([(score, score.raw_late_s) for score in scores if score.raw_late_s is not None])

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
"""What was said of a wait, and how long it was, or is by now."""

_SAID = itemgetter(0)


@dataclass(frozen=True, slots=True)
class _Waits:
    """Waits that have ended, and such that go on, ascending by what was said; of equal ones as they are given."""

    ended: list[_Pair] = field(default_factory=list)
    going_on: list[_Pair] = field(default_factory=list)

    def like(self, said_s: float) -> tuple[Sequence[_Pair], Sequence[_Pair]]:
        """Return of both those that are alike: those that go on differ by no more than those that have ended."""
        count = max(_LEAST_ALIKE, min(_MOST_ALIKE, int(len(self.ended) * _PART_ALIKE)))
        ended = _nearest(self.ended, said_s, count)
        first, last = min(said_s, ended[0][0]), max(said_s, ended[-1][0])
        low, high = bisect_left(self.going_on, first, key=_SAID), bisect_right(self.going_on, last, key=_SAID)
        return ended, _nearest(self.going_on[low:high], said_s, _MOST_ALIKE)


class _Past:
    """What the engine said of waits, and how long they were or are by now, for one of both quantiles."""

    def __init__(self, scores: Iterable[tuple[Score, float]]) -> None:
        self._all, self._by_class = _Waits(), defaultdict[str, _Waits](_Waits)
        for score, said_s in sorted(scores, key=itemgetter(1)):
            for waits in (self._all, self._by_class[score.wait_class]):
                (waits.going_on if score.goes_on else waits.ended).append((said_s, score.waited_s))

    @property
    def count(self) -> int:
        return len(self._all.ended)

    def correct(self, said_s: float, wait_class: str, level: float) -> float:
        """Return what to tell where the engine says so many seconds: at most that, or the longest wait like it."""
        if self.count < ENOUGH or said_s == math.inf:
            return said_s
        own = self._by_class[wait_class]
        ended, going_on = (own if len(own.ended) >= _LEAST_ALIKE else self._all).like(said_s)
        ratio = _cover(
            level, [*((_ratio(pair), False) for pair in ended), *((_ratio(pair), True) for pair in going_on)]
        )
        longest_s = max(said_s, *(waited_s for _, waited_s in ended))
        return min(longest_s, max(0.0, (said_s + _OFFSET_S) * ratio - _OFFSET_S))


def _ratio(pair: _Pair) -> float:
    said_s, waited_s = pair
    return (waited_s + _OFFSET_S) / (said_s + _OFFSET_S)


def _cover(part: float, ratios: list[tuple[float, bool]]) -> float:
    """Return the least ratio that covers this part of them, or the greatest; only of those of waits that have ended.

    A wait that goes on will have a greater ratio. So what it counts is shared by those above it.
    """
    ratios.sort()
    covered, weight, mass = 0.0, 1.0, 0.0
    for above, (ratio, goes_on) in zip(reversed(range(len(ratios))), ratios, strict=True):
        if not goes_on:
            covered, mass = covered + weight, ratio
            if covered >= part * (len(ratios) + 1):
                break
        elif above:
            weight *= 1 + 1 / above
    return mass


def _nearest(pairs: Sequence[_Pair], said_s: float, count: int) -> Sequence[_Pair]:
    """Return as many pairs, which ascend by what was said, whose ratio to what is said now is nearest to one."""
    count = min(len(pairs), count)
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
