"""Circuit breakers: what does not answer is asked less and less often, so that it slows nobody else."""

import threading
import time
from collections.abc import Callable

_FIRST_PAUSE_S, _MOST_PAUSE_S, _FAILURES = 1.0, 15.0, 2


class Breaker:
    """Lets calls pass until some in a row were not answered, then only one after each pause, which grows.

    `outages` counts how often it has opened: what was known before is to be read anew.
    """

    def __init__(
        self, refuse: Callable[[str], Exception], *, longest_s: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Take what makes the error of a call that may not pass, and how long a call may take."""
        self._refuse = refuse
        self._longest_s = longest_s
        self._now = now
        self._guard = threading.Lock()
        self._failures = 0
        self._closed_until = 0.0
        self._error = ""
        self.outages = 0

    @property
    def is_open(self) -> bool:
        """Whether there was no answer when it was last asked."""
        return self._failures >= _FAILURES

    def enter(self, *, may_try: bool = True) -> None:
        """Raise the last error instead of letting a call wait for what did not answer just now.

        After a pause, one call that `may_try` passes.
        """
        with self._guard:
            if not self.is_open:
                return
            if not may_try or self._now() < self._closed_until:
                raise self._refuse(self._error)
            self._closed_until = self._now() + self._longest_s  # one tries; the others wait for its result

    def succeed(self) -> None:
        """Note an answer."""
        with self._guard:
            self._failures = 0

    def fail(self, error: str, *, is_slow: bool = False) -> None:
        """Note that there was none. It opens at once after a timeout (`is_slow`)."""
        with self._guard:
            was_open = self.is_open
            self._failures = max(self._failures + 1, _FAILURES if is_slow else 0)
            self._error = error
            self.outages += self.is_open and not was_open
            pause = min(_MOST_PAUSE_S, _FIRST_PAUSE_S * 2 ** max(0, min(self._failures, 30) - _FAILURES))
            self._closed_until = self._now() + pause
