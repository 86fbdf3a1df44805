"""Samples are summed up over spans that begin where the clock says, and the past is read as fine as it is kept."""

from datetime import UTC, datetime, timedelta

import pytest

from scheduler.engine.spans import LEVELS, level_for

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def test_a_span_begins_at_a_whole_multiple_of_its_length():
    quarter, six_hours = LEVELS[1], LEVELS[2]

    assert quarter.begin_of(NOON + timedelta(minutes=16)) == NOON + timedelta(minutes=15)
    assert six_hours.begin_of(NOON + timedelta(hours=5, minutes=59)) == NOON


def test_a_moment_between_two_spans_ends_the_first_and_begins_the_second():
    quarter = LEVELS[1]

    assert quarter.begin_of(NOON) == NOON
    assert quarter.begin_before(NOON) == NOON - timedelta(minutes=15)


@pytest.mark.parametrize(
    ("past", "level"),
    [
        (timedelta(hours=6), 0),
        (timedelta(days=1), 1),
        (timedelta(days=7), 1),
        (timedelta(days=30), 2),
        (timedelta(days=365), 2),
    ],
)
def test_a_longer_past_is_read_in_coarser_spans(past, level):
    assert level_for(past).number == level
