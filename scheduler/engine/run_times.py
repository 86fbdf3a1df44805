"""How long a job runs: the lengths of runs like it, each as likely as the next, given how long it has run already."""

import math
from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunTimes:
    """What is known of how long one job runs; all in seconds.

    `lengths` are those of earlier runs like it, ascending; empty: there was none. `ran_s` is how long the job has run
    so far, and `limit_s` when it is stopped for good (None: never).
    """

    lengths: tuple[float, ...] = ()
    ran_s: float = 0.0
    limit_s: float | None = None

    @property
    def is_known(self) -> bool:
        """Whether anything says when it ends."""
        return bool(self.lengths) or self.limit_s is not None

    @property
    def is_certain(self) -> bool:
        """Whether there is but one length that it may have."""
        return self.left_s(0.0) == self.left_s(1.0)

    def left_s(self, part: float, *, starts_anew: bool = False) -> float:
        """Return how long it goes on, so that this part (0 to 1) of what is possible is shorter; infinite: unknown.

        Of the lengths only those count that are longer than it has run already. One that outlasts all of them goes on
        as work of unknown scale does: it runs twice as long as now with a chance of one half, ten times as long with
        one tenth. `starts_anew`: it is stopped and begins again.
        """
        ran_s = 0.0 if starts_anew else self.ran_s
        shorter, count = bisect_right(self.lengths, ran_s), len(self.lengths)
        if shorter < count:
            length = self.lengths[min(shorter + int(part * (count - shorter)), count - 1)]
        elif self.lengths:
            length = ran_s / (1 - part) if part < 1 else math.inf
        else:
            length = math.inf
        if self.limit_s is not None:
            length = min(length, self.limit_s)
        return max(0.0, length - ran_s)


UNKNOWN = RunTimes()
"""Nothing is known."""
