"""Ending work that runs on several threads: on request, or because one of them failed."""

import threading
import time
from collections.abc import Callable

_POLL_S = 1.0


class Cancelled(Exception):
    """The work ended before it was complete, on request or after a failure elsewhere."""


class Cancellation:
    """`is_requested` is asked often, by every thread."""

    def __init__(self, is_requested: Callable[[], bool] = lambda: False) -> None:
        self._is_requested = is_requested
        self._is_cancelled = threading.Event()

    def cancel(self) -> None:
        """End the work of all threads at their next check."""
        self._is_cancelled.set()

    def check(self) -> None:
        """Raise Cancelled if the work should end."""
        if self._is_cancelled.is_set() or self._is_requested():
            raise Cancelled

    def sleep(self, wait_s: float) -> None:
        """Wait, but no longer than the work goes on. Raises Cancelled."""
        ends_at = time.monotonic() + wait_s
        while (left_s := ends_at - time.monotonic()) > 0:
            self._is_cancelled.wait(min(left_s, _POLL_S))
            self.check()
