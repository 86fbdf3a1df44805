"""Which parts of a job run next, and when the whole is over."""

import pytest

from compute.engine.parts import Part, plan
from compute.engine.states import JobState, ReasonCode

RUNNING, PENDING, DONE, FAILED, CANCELLED = (
    JobState.RUNNING,
    JobState.PENDING,
    JobState.SUCCEEDED,
    JobState.FAILED,
    JobState.CANCELLED,
)


def follow(*states: tuple[int, JobState], completions=4, parallelism=2, retries=1):
    tries = [Part(index, state) for index, state in states]
    return plan(tries, completions=completions, parallelism=parallelism, retries=retries)


@pytest.mark.parametrize(
    ("tries", "starts"),
    [
        ([], [0, 1]),
        ([(0, RUNNING), (1, RUNNING)], []),
        ([(0, DONE), (1, RUNNING)], [2]),
        ([(0, JobState.LEAVING), (1, DONE)], [2]),  # one that is evicted waits again, and keeps its turn
        ([(0, PENDING), (1, JobState.SUSPENDED)], []),
        ([(0, DONE), (1, FAILED)], [1, 2]),  # what failed goes ahead
        ([(0, DONE), (1, JobState.LOST), (1, RUNNING)], [2]),
        ([(0, DONE), (1, DONE), (2, DONE)], [3]),
    ],
)
def test_the_next_indexes_start_as_long_as_there_is_a_turn(tries, starts):
    planned = follow(*tries)

    assert (list(planned.starts), planned.end) == (starts, None)


def test_the_whole_succeeds_once_each_index_has():
    planned = follow((0, FAILED), (0, DONE), (1, DONE), (2, DONE), (3, DONE))

    assert (planned.end, planned.starts, str(planned.progress)) == (DONE, (), "4 of 4 done, 1 of 1 retries used")


def test_it_fails_with_the_first_failure_beyond_its_retries_whatever_index_had_them():
    planned = follow((0, FAILED), (1, FAILED), (0, RUNNING))

    assert (planned.end, planned.why.index, planned.starts) == (FAILED, 1, ())


def test_a_part_that_was_cancelled_is_not_run_again():
    planned = follow((0, CANCELLED), (1, RUNNING))

    assert (planned.end, planned.why.index) == (FAILED, 0)


@pytest.mark.parametrize("limit", [ReasonCode.IDLE_LIMIT, ReasonCode.TIME_LIMIT])
def test_a_part_that_was_ended_by_a_limit_has_failed_and_runs_again(limit):
    ended = Part(0, CANCELLED, limit)

    once = plan([ended, Part(1, RUNNING)], completions=4, parallelism=2, retries=1)
    twice = plan([ended, ended, Part(1, RUNNING)], completions=4, parallelism=2, retries=1)

    assert (once.end, list(once.starts), once.progress.failures) == (None, [0], 1)
    assert (twice.end, twice.why.reason_code) == (FAILED, limit)


def test_its_progress_in_words():
    planned = follow((0, DONE), (1, FAILED), (2, RUNNING), (1, PENDING), completions=12, retries=6)

    assert str(planned.progress) == "1 of 12 done, 1 running, 1 waiting, 1 of 6 retries used"
