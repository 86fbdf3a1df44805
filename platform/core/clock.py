"""The one place that reads the time, so that tests can hold it still."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial


class _StandIn(threading.local):
    """The moment that this thread takes for the present one."""

    moment: datetime | None = None


_source: Callable[[], datetime] = partial(datetime.now, UTC)  # noqa: TID251 (this is the place where the clock is read)
_stand_in = _StandIn()


def now() -> datetime:
    """Return the present moment in UTC."""
    return _stand_in.moment or _source()


def now_ms() -> int:
    """Return the present moment in milliseconds since 1970."""
    return int(now().timestamp() * 1000)


def monotonic() -> float:
    """Return seconds that never run backwards, for durations within one process."""
    return time.monotonic()


@contextmanager
def stood_in_for_by(moment: datetime) -> Iterator[None]:
    """Have this thread take a moment for the present one, to find out where something depends on it."""
    _stand_in.moment = moment
    try:
        yield
    finally:
        _stand_in.moment = None


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
