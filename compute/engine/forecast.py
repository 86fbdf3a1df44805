"""How long something takes, learnt from how long the like of it took."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_LATE = 0.9


@dataclass(frozen=True)
class Forecast:
    """What is likely, in seconds: half of the earlier ones were done by `likely_s`, nine of ten by `late_s`.

    `count` is how many it was learnt from; 0 means that it is declared, not learnt.
    """

    likely_s: float
    late_s: float
    count: int

    def percent_at(self, elapsed_s: float) -> int:
        """Return how far something is after so many seconds; never 100, as it has not ended."""
        return max(0, min(99, int(100 * elapsed_s / self.likely_s))) if self.likely_s > 0 else 99

    def left_at(self, elapsed_s: float) -> float | None:
        """Return the seconds that are likely left; None once it takes longer than usual."""
        return self.likely_s - elapsed_s if elapsed_s < self.likely_s else None


def forecast_from(seconds: Sequence[float]) -> Forecast | None:
    """Return the forecast that earlier durations allow; None without any."""
    if not seconds:
        return None
    ordered = sorted(seconds)
    return Forecast(_rank(ordered, 0.5), _rank(ordered, _LATE), len(ordered))


def likeness(command: object, flow: object = None, step: object = None) -> str:
    """Return what jobs of one purpose have in common: flow and step, or how the last line of their command begins."""
    if flow and step:
        return f"{flow}/{step}"
    text = command if isinstance(command, str) else " ".join(map(str, command)) if isinstance(command, Iterable) else ""
    last_line = (text.strip().splitlines() or [""])[-1]
    return " ".join([word for word in last_line.split() if not word.startswith("-") and not _is_number(word)][:3])


def _is_number(word: str) -> bool:
    return word.replace(".", "", 1).isdigit()


def _rank(ordered: Sequence[float], part: float) -> float:
    return ordered[math.ceil(part * len(ordered)) - 1]
