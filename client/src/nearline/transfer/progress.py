"""How far a transfer is. It only counts; showing is the business of whoever gave the callback."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

# Old speeds are forgotten at this pace, so that the estimate follows what the network does now.
_WINDOW_S = 0.5
_RECENT_SHARE = 0.3


@dataclass(frozen=True)
class Progress:
    """One moment of a transfer. Totals are None while they are unknown; so are the rate and the seconds left."""

    phase: str
    files_done: int
    files_total: int | None
    bytes_done: int
    bytes_total: int | None
    rate_bytes_s: float | None = None
    eta_s: float | None = None


OnProgress: TypeAlias = Callable[[Progress], None]


def ignore_progress(_: Progress) -> None:
    """Take note of nothing."""


class Meter:
    """Adds up what several threads have done in one phase and tells the callback, at most ten times a second."""

    def __init__(
        self,
        on_progress: OnProgress,
        phase: str,
        *,
        files_total: int | None = None,
        bytes_total: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_progress = on_progress
        self._phase = phase
        self._files_total = files_total
        self._bytes_total = bytes_total
        self._clock = clock
        self._lock = threading.Lock()
        self._files = self._bytes = 0
        self._rate: float | None = None
        self._measured_at, self._measured_bytes = clock(), 0
        self._reported_at = float("-inf")

    def add(self, *, files: int = 0, size_bytes: int = 0) -> None:
        """Count something as done."""
        with self._lock:
            self._files += files
            self._bytes += size_bytes
            self._report_now_and_then()

    def show(self, *, files: int, size_bytes: int) -> None:
        """Say how much is done in all."""
        with self._lock:
            self._files, self._bytes = files, size_bytes
            self._report_now_and_then()

    def finish(self) -> None:
        """Report the final state."""
        with self._lock:
            self._report(self._clock())

    def _report_now_and_then(self) -> None:
        now = self._clock()
        if now - self._reported_at >= 0.1:  # noqa: PLR2004 (seconds)
            self._reported_at = now
            self._report(now)

    def _report(self, now: float) -> None:
        passed = now - self._measured_at
        if passed >= _WINDOW_S:
            recent = (self._bytes - self._measured_bytes) / passed
            self._rate = recent if self._rate is None else _RECENT_SHARE * recent + (1 - _RECENT_SHARE) * self._rate
            self._measured_at, self._measured_bytes = now, self._bytes
        eta_s = None
        if self._rate and self._bytes_total is not None:
            eta_s = max(0, self._bytes_total - self._bytes) / self._rate
        self._on_progress(
            Progress(self._phase, self._files, self._files_total, self._bytes, self._bytes_total, self._rate, eta_s)
        )
