"""Trying again: what is worth another attempt, how long to wait before it, and when to give up.

Client and server move content by this one policy. Waits are random and grow (full jitter), so that many who were
refused at the same moment do not come back at the same moment.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

T = TypeVar("T")

_LARGEST_EXPONENT = 30


class Failure(Enum):
    """What a failure says about another attempt.

    FINAL: it would fail too. STALE: what it needs is replaced first, then it may be made at once. BROKEN: the other
    side failed by itself; a few attempts. AWAY: the other side is out of reach or busy; it is waited for.
    """

    FINAL = "final"
    STALE = "stale"
    BROKEN = "broken"
    AWAY = "away"


@dataclass(frozen=True)
class Waiting:
    """A wait before another attempt. `waited_s` is for how long it has failed, `limit_s` when it is given up."""

    reason: str
    waited_s: float
    limit_s: float

    @property
    def left_s(self) -> float:
        """Return for how many seconds more it is tried."""
        return max(0.0, self.limit_s - self.waited_s)


def ignore_waiting(_: Waiting) -> None:
    """Take no note of a wait."""


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how long to try. `classify` tells what an exception means; `on_wait` is told of each wait.

    `attempts` bounds how often something may be STALE or BROKEN; who is AWAY is waited for until `patience_s` has
    passed. Time and chance can be replaced by tests.
    """

    classify: Callable[[Exception], Failure]
    attempts: int = 8
    patience_s: float = 600.0
    base_s: float = 0.25
    longest_s: float = 15.0
    on_wait: Callable[[Waiting], None] = ignore_waiting
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic

    def repeat(self, attempt: Callable[[], T]) -> T:
        """Return what `attempt` returns, repeating it while it fails for reasons that may pass.

        An exception may say by `retry_after_s` how long the other side asks to be left alone.
        """
        began_at, slept_s = self.clock(), 0.0
        failures = of_its_own = 0
        while True:
            try:
                return attempt()
            except Exception as error:
                failure = self.classify(error)
                failures += 1
                of_its_own += failure is not Failure.AWAY
                if failure is Failure.FINAL or of_its_own >= self.attempts:
                    raise
                if failure is Failure.STALE:
                    continue
                # By both, since the clock and the sleep of a test may stand still.
                waited_s = max(self.clock() - began_at, slept_s)
                wait_s = self._wait_s(failures, getattr(error, "retry_after_s", 0.0))
                if waited_s + wait_s > self.patience_s:
                    raise
                self.on_wait(Waiting(str(error), waited_s, self.patience_s))
            self.sleep(wait_s)
            slept_s += wait_s

    def _wait_s(self, failures: int, retry_after_s: float) -> float:
        longest_s = min(self.longest_s, self.base_s * 2.0 ** min(failures, _LARGEST_EXPONENT))
        return max(self.chance() * longest_s, min(retry_after_s, self.longest_s))
