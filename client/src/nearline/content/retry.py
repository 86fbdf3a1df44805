"""Retries: which failures are worth another attempt, how long to wait before it, and when to give up.

Client and server move content by this one policy. Waits grow and are random (full jitter), so that many callers that
were refused at the same moment do not retry at the same moment.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

T = TypeVar("T")

TOO_MANY_REQUESTS = "core.too_many_requests"
"""The code by which a server says that it did nothing of a request, as others of the same caller wait already."""

_LARGEST_EXPONENT = 30


class Failure(Enum):
    """What a failure says about another attempt.

    PERMANENT: it would fail too. EXPIRED: a permission is renewed first, then it may be made at once. SERVER_ERROR: the
    other side failed by itself; a few attempts. UNAVAILABLE: the other side is out of reach or busy; it is waited for.
    THROTTLED: too many requests of the same caller waited, so nothing of this one was done; its turn is waited for.
    """

    PERMANENT = "permanent"
    EXPIRED = "expired"
    SERVER_ERROR = "server error"
    UNAVAILABLE = "unavailable"
    THROTTLED = "throttled"


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
    """Report no wait."""


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how long to try. `classify` says what an exception means; `on_wait` is called before each wait.

    `max_attempts` bounds failures that are EXPIRED or SERVER_ERROR; UNAVAILABLE is waited for until `max_elapsed_s`
    have passed, and THROTTLED until `max_throttled_s` have. `jitter` returns a number from 0 to 1. Tests replace it,
    the clock and the sleep.
    """

    classify: Callable[[Exception], Failure]
    max_attempts: int = 8
    max_elapsed_s: float = 600.0
    max_throttled_s: float = 600.0
    base_delay_s: float = 0.25
    max_delay_s: float = 15.0
    on_wait: Callable[[Waiting], None] = ignore_waiting
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic

    def repeat(self, attempt: Callable[[], T]) -> T:
        """Return what `attempt` returns, repeating it while it fails for reasons that may pass.

        An exception may have `retry_after_s`: for how many seconds the other side asks for no request.
        """
        began_at, slept_s = self.clock(), 0.0
        failures = counted_failures = 0
        while True:
            try:
                return attempt()
            except Exception as error:
                failure = self.classify(error)
                failures += 1
                counted_failures += failure not in {Failure.UNAVAILABLE, Failure.THROTTLED}
                if failure is Failure.PERMANENT or counted_failures >= self.max_attempts:
                    raise
                if failure is Failure.EXPIRED:
                    continue
                # By both, since the clock and the sleep of a test may stand still.
                waited_s = max(self.clock() - began_at, slept_s)
                wait_s = self._wait_s(failures, getattr(error, "retry_after_s", 0.0))
                limit_s = self.max_throttled_s if failure is Failure.THROTTLED else self.max_elapsed_s
                if waited_s + wait_s > limit_s:
                    raise
                self.on_wait(Waiting(str(error), waited_s, limit_s))
            self.sleep(wait_s)
            slept_s += wait_s

    def _wait_s(self, failures: int, retry_after_s: float) -> float:
        max_delay_s = min(self.max_delay_s, self.base_delay_s * 2.0 ** min(failures, _LARGEST_EXPONENT))
        return max(self.jitter() * max_delay_s, min(retry_after_s, self.max_delay_s))


def read_retry_after_s(text: str | None) -> float:
    """Return for how many seconds a Retry-After asks for no request; 0 where it says nothing, or a date."""
    return float(text) if text and text.isdecimal() else 0.0
