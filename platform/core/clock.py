"""The one place that reads the time, so that tests can hold it still."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime


def _system_time() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 (this is the place where the clock is read)


_source: Callable[[], datetime] = _system_time


def now() -> datetime:
    """Return the present moment in UTC."""
    return _source()


def now_ms() -> int:
    """Return the present moment in milliseconds since 1970."""
    return int(now().timestamp() * 1000)


def monotonic() -> float:
    """Return seconds that never run backwards, for durations within one process."""
    return time.monotonic()


@contextmanager
def frozen_at(moment: datetime) -> Iterator[Callable[[datetime], None]]:
    """Hold the clock at `moment`; the yielded function moves it. For tests."""
    global _source  # noqa: PLW0603 (a clock is process-wide by nature)
    held = [moment]
    before, _source = _source, lambda: held[0]
    try:
        yield lambda later: held.__setitem__(0, later)
    finally:
        _source = before
