"""Which of its templates a step goes to by what is forecast there: the one function that decides, and its words."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from core.units import format_duration

Fallback = Literal["order", "soonest", "cheapest"]
"""How a step chooses among its templates: the first that can start, the soonest done, or the one that costs least."""

_NOW_S = 1.0
_SAME_S = 1.0


@dataclass(frozen=True)
class PlaceForecast:
    """What equal jobs that are submitted now may expect at one template, in one half of all cases.

    `starts_in_s` says in how many seconds the first, the second, ... of them starts, its data brought before; infinite:
    not known. Each runs for `run_s` seconds. `price_per_hour` None: the template has no price.
    """

    starts_in_s: tuple[float, ...]
    run_s: float
    price_per_hour: float | None = None

    def start_of(self, number: int) -> float:
        """Return in how many seconds a job starts, counted from 0; beyond those forecast, as steadily as these."""
        last = len(self.starts_in_s) - 1
        if number <= last:
            return self.starts_in_s[number]
        each_s = (self.starts_in_s[last] - self.starts_in_s[0]) / last if last else self.run_s
        return self.starts_in_s[last] + (number - last) * each_s

    def finish_of(self, number: int) -> float:
        """Return in how many seconds a job is done, counted from 0; infinite: not known."""
        return self.start_of(number) + self.run_s

    @property
    def cost(self) -> float:
        """What one run costs; infinite: not known."""
        return math.inf if self.price_per_hour is None else self.price_per_hour * self.run_s / 3600


@dataclass(frozen=True)
class Decision:
    """The place that was chosen, and the best of the others; None where there is no other of which enough is known."""

    chosen: int
    runner_up: int | None


def choose(mode: Fallback, places: Mapping[int, PlaceForecast], taken: Mapping[int, int]) -> Decision | None:
    """Return where a job is done first, or costs least; equals in the order of their numbers. None: nothing is known.

    Of the jobs that were forecast, `taken` says by place how many went there before this one.
    """

    def rank(number: int) -> tuple[float, ...]:
        finish_s, cost = places[number].finish_of(taken.get(number, 0)), places[number].cost
        return (cost, finish_s, number) if mode == "cheapest" else (finish_s, number)

    known = sorted((number for number in places if rank(number)[0] < math.inf), key=rank)
    return Decision(known[0], known[1] if known[1:] else None) if known else None


def explain(
    mode: Fallback,
    decision: Decision,
    places: Mapping[int, PlaceForecast],
    taken: Mapping[int, int],
    names: Mapping[int, str],
) -> str:
    """Return why a place was chosen, and what is forecast of the runner-up."""
    chosen = decision.chosen
    start_s, finish_s = (find(taken.get(chosen, 0)) for find in (places[chosen].start_of, places[chosen].finish_of))
    if mode == "cheapest":
        text = f"{names[chosen]} costs least, {places[chosen].cost:.2f}"
        text += f", and is done {_in(finish_s)}" if finish_s < math.inf else ""
    else:
        text = f"{names[chosen]} is done first, {_in(finish_s)}"
    other = decision.runner_up
    if other is None:
        return f"{text}."
    other_start_s, other_finish_s = (
        find(taken.get(other, 0)) for find in (places[other].start_of, places[other].finish_of)
    )
    would = f"on {names[other]} it would"
    cost = f" cost {places[other].cost:.2f} and" if mode == "cheapest" else ""
    if math.inf in {finish_s, other_finish_s}:
        return f"{text}; {would}{cost.removesuffix(' and')}." if cost else f"{text}."
    later_s = other_finish_s - finish_s
    joint = "but" if (other_start_s < start_s) == (later_s > 0) else "and"
    then = "at the same time" if abs(later_s) < _SAME_S else f"{format_duration(abs(later_s))} {_than(later_s)}"
    return f"{text}; {would}{cost} start {_in(other_start_s)} {joint} be done {then}."


def _in(seconds: float) -> str:
    return "now" if seconds < _NOW_S else f"in about {format_duration(seconds)}"


def _than(later_s: float) -> str:
    return "later" if later_s > 0 else "sooner"
