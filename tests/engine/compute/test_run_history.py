"""What a job did before its present run."""

from datetime import UTC, datetime, timedelta

from compute.engine.run_history import RunHistory, read_history
from core.times import Interval


def at(seconds: float) -> datetime:
    return datetime(2026, 11, 21, 12, tzinfo=UTC) + timedelta(seconds=seconds)


def history_of(*events: tuple[str, float]) -> RunHistory:
    return read_history(at(0), [(state, at(seconds)) for state, seconds in events])


def test_a_job_in_its_first_run_has_none_before():
    assert history_of(("pending", 0), ("running", 3), ("running", 5)) == RunHistory([], [], at(0))


def test_an_eviction_ends_a_run_and_notes_begin_none():
    evicted = history_of(("pending", 0), ("running", 3), ("running", 5), ("pending", 9), ("pending", 10))

    assert evicted == RunHistory([Interval(at(0), at(3), at(9))], [], at(9))


def test_a_suspension_lasts_until_the_job_is_resumed():
    resumed = history_of(("pending", 0), ("running", 3), ("suspended", 9), ("pending", 20), ("running", 25))

    assert resumed == RunHistory([Interval(at(0), at(3), at(9))], [(at(9), at(20))], at(20))


def test_a_job_that_is_suspended_before_it_ran_has_waited_until_then():
    assert history_of(("pending", 0), ("suspended", 9)) == RunHistory(
        [Interval(at(0), None, at(9))], [(at(9), None)], None
    )
