"""Waited, ran and total, as every page and command says them."""

from datetime import UTC, datetime, timedelta

from core.times import Interval, Times, measure

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def interval(queued: float, started: float | None, ended: float | None) -> Interval:
    return Interval(at(queued), None if started is None else at(started), None if ended is None else at(ended))


def test_nothing_took_no_time():
    assert measure([], now=at(9)) is None


def test_a_job_waits_then_runs():
    assert measure([interval(0, 2, 9)], now=at(100)) == Times(waited_s=2, ran_s=7, total_s=9)


def test_what_has_not_ended_counts_up_to_now():
    assert measure([interval(0, 2, None)], now=at(5)) == Times(waited_s=2, ran_s=3, total_s=5)
    assert measure([interval(0, None, None)], now=at(5)) == Times(waited_s=5, ran_s=None, total_s=5)


def test_what_runs_at_the_same_time_counts_once():
    intervals = [interval(0, 1, 5), interval(0, 2, 6)]

    assert measure(intervals, now=at(9)) == Times(waited_s=1, ran_s=5, total_s=6)


def test_between_an_end_and_a_retry_it_neither_waits_nor_runs():
    intervals = [interval(0, 1, 11), interval(1660, 1664, 1680)]

    assert measure(intervals, now=at(9999)) == Times(waited_s=5, ran_s=26, total_s=1680)


def test_a_clock_that_is_behind_makes_no_wait_shorter_than_nothing():
    assert measure([interval(2, 1, 4)], now=at(9)) == Times(waited_s=0, ran_s=2, total_s=2)
