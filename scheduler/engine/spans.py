"""The spans over which use is summed up: the older, the coarser, and each level is kept for so long."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True, slots=True)
class Level:
    """Samples of spans of this length. Those of level 0 are about as long as it says."""

    number: int
    span: timedelta
    retention: timedelta

    def begin_of(self, moment: datetime) -> datetime:
        """Return when the span begins in which a moment lies."""
        return _EPOCH + (moment - _EPOCH) // self.span * self.span

    def begin_before(self, moment: datetime) -> datetime:
        """Return when the span begins that ends at a moment, or in which it lies."""
        return self.begin_of(moment - timedelta(microseconds=1))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

LEVELS = (
    Level(0, timedelta(minutes=1), timedelta(days=1)),
    Level(1, timedelta(minutes=15), timedelta(days=14)),
    Level(2, timedelta(hours=6), timedelta(days=800)),
)


def level_for(past: timedelta) -> Level:
    """Return the finest level that reaches so far back in at most about 700 samples."""
    return next((level for level in LEVELS if past <= min(level.retention, _MOST_SAMPLES * level.span)), LEVELS[-1])


_MOST_SAMPLES = 700
