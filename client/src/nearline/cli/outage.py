"""Telling that a server or a store is away while it is waited for: once, and again every half minute."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from nearline.cli import formats
from nearline.cli.output import Output, printable
from nearline.content.retry import Waiting

# What is over sooner need not be told.
_UNTOLD_S = 3.0
_EVERY_S = 30.0


@dataclass
class OutageNotice:
    """Takes note of every wait, from any thread."""

    out: Output
    clock: Callable[[], float] = time.monotonic
    _next_at: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, waiting: Waiting) -> None:
        """Tell the reason, and for how long it is tried."""
        with self._lock:
            now = self.clock()
            if waiting.waited_s < _UNTOLD_S or now < self._next_at:
                return
            self._next_at = now + _EVERY_S
        left = formats.duration(waiting.left_s)
        self.out.warn(f"{printable(waiting.reason)} Trying again, for at most {left} more.")
