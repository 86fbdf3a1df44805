"""How long a job runs: learnt from runs like it, those that go on among them, given how long it has run already.

A run that goes on is at least as long as now. To leave it out would make jobs of one kind look short for as long as
only the short ones of them have ended. So it counts in the product-limit estimate (Kaplan, Meier, JASA 53, 1958).
"""

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from operator import neg
from typing import NamedTuple

_TIMES_AS_LONG = (10 / 9, 10 / 7, 2, 10 / 3, 10)
"""As by now a run is that outlasts all that have ended, each with a chance of one fifth: work of unknown scale is twice
as long as by now in one half of all cases, ten times as long in one tenth."""


class Run(NamedTuple):
    """A run of a job, in seconds: how long it was, or is by now where it `goes_on`."""

    length_s: float
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long runs of one kind may be.

    `seconds` are ascending; empty: none has ended. `longer` says of how many runs are longer than the first n of these,
    for each n from 0.
    """

    seconds: tuple[float, ...] = ()
    longer: tuple[float, ...] = (0.0,)

    def length_s(self, part: float, ran_s: float) -> float:
        """Return the length that this part (0 to 1) of the runs does not exceed that are longer than `ran_s`.

        Infinite: unknown. One that outlasts them all is twice as long as now with a chance of one half.
        """
        shorter, count = bisect_right(self.seconds, ran_s), len(self.seconds)
        if shorter < count:
            index = bisect_right(self.longer, (part - 1) * self.longer[shorter], key=neg) - 1
            return self.seconds[min(index, count - 1)]
        return ran_s / (1 - part) if count and part < 1 else math.inf


def learn(runs: Iterable[Run], half_life: float = math.inf) -> Lengths:
    """Return what runs of one kind tell, the last one first. A run counts half as much after so many later ones."""
    weighted = [(*run, 0.5 ** (age / half_life)) for age, run in enumerate(runs)]
    last_end_s = max((length_s for length_s, goes_on, _ in weighted if not goes_on), default=math.inf)
    possible = list[tuple[float, bool, float]]()
    for length_s, goes_on, weight in weighted:
        if goes_on and length_s >= last_end_s:
            possible += [(length_s * times, False, weight / len(_TIMES_AS_LONG)) for times in _TIMES_AS_LONG]
        else:
            possible.append((length_s, goes_on, weight))
    possible.sort()
    rests = list(accumulate((weight for *_, weight in reversed(possible)), initial=0.0))[-2::-1]
    seconds, weights, factor = list[float](), list[float](), 1.0
    for (length_s, goes_on, weight), rest in zip(possible, rests, strict=True):
        if not goes_on:
            seconds.append(length_s)
            weights.append(weight * factor)
        elif rest:
            factor *= 1 + weight / rest  # its weight goes to those that are longer
    return Lengths(tuple(seconds), tuple(accumulate(reversed(weights), initial=0.0))[::-1])


def each_once(*lengths_s: float) -> Lengths:
    """Return that runs have these lengths, each as likely as the next."""
    return learn(map(Run, lengths_s))


@dataclass(frozen=True, slots=True)
class RunTimes:
    """What is known of how long one job runs; all in seconds.

    `lengths` are those of runs like it, one object for all jobs of a kind. `ran_s` is how long the job has run so far,
    and `limit_s` when it is stopped for good (None: never).
    """

    lengths: Lengths = Lengths()
    ran_s: float = 0.0
    limit_s: float | None = None

    @property
    def is_certain(self) -> bool:
        """Whether there is but one length that it may have."""
        return self.left_s(0.0) == self.left_s(1.0)

    def left_s(self, part: float, *, starts_anew: bool = False) -> float:
        """Return how long it goes on, so that this part (0 to 1) of what is possible is shorter; infinite: unknown.

        Of the lengths only those count that are longer than it has run already. `starts_anew`: it is stopped and begins
        again.
        """
        ran_s = 0.0 if starts_anew else self.ran_s
        length_s = self.lengths.length_s(part, ran_s)
        if self.limit_s is not None:
            length_s = min(length_s, self.limit_s)
        return max(0.0, length_s - ran_s)


UNKNOWN = RunTimes()
"""Nothing is known."""
