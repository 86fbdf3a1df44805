"""Telling in a program's log that the store is away while its reads wait: once for as long as they are tried again."""

import logging
import threading
import time
from collections.abc import Callable

from nearline.content.retry import Waiting

log = logging.getLogger("nearline")

# What is over sooner need not be told.
_UNTOLD_S = 3.0


class OutageWarning:
    """Takes note of every wait, from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._told_until = float("-inf")

    def __call__(self, waiting: Waiting) -> None:
        """Tell the reason, and for how long it is tried."""
        with self._lock:
            now = self._clock()
            if waiting.waited_s < _UNTOLD_S or now < self._told_until:
                return
            self._told_until = now + waiting.left_s
        log.warning("%s Reading is tried again, for at most %d s more.", waiting.reason, waiting.left_s)
