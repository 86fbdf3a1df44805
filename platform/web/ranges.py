"""Lengths of the past that a person may choose on pages that show history."""

from dataclasses import dataclass
from datetime import timedelta

from accounts.web.requests import PageRequest, text
from core.errors import InvalidInput


@dataclass(frozen=True)
class Range:
    """A length of the past that a person may choose. `unit` is that of the axis, and its length."""

    word: str
    label: str
    past: timedelta
    unit: str
    unit_length: timedelta


_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
RANGES = {
    each.word: each
    for each in (
        Range("1h", "1 hour", _HOUR, "minutes from now", _MINUTE),
        Range("6h", "6 hours", 6 * _HOUR, "hours from now", _HOUR),
        Range("1d", "1 day", _DAY, "hours from now", _HOUR),
        Range("7d", "7 days", 7 * _DAY, "days from now", _DAY),
        Range("30d", "30 days", 30 * _DAY, "days from now", _DAY),
        Range("365d", "1 year", 365 * _DAY, "days from now", _DAY),
    )
}
USUAL = RANGES["1d"]


def find_range(request: PageRequest) -> Range | None:
    """Return the range that the address names; None: it names none. Raises InvalidInput."""
    word = text(request, "range")
    if not word:
        return None
    if word not in RANGES:
        raise InvalidInput(f"'{word}' is no range of time. There are: {', '.join(RANGES)}.")
    return RANGES[word]


def range_of(request: PageRequest) -> Range:
    """Return the range that the address names, else a day. Raises InvalidInput."""
    return find_range(request) or USUAL
