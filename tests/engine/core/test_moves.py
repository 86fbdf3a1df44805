"""When a job that waits is worth moving."""

import math

import pytest

from core import moves


@pytest.mark.parametrize(
    ("there_s", "here_s", "without_data", "with_data"),
    [
        (0.0, 600.0, True, True),
        (0.0, 0.0, False, False),
        (100.0, 600.0, False, True),
        (400.0, 600.0, False, False),
        (10.0, 60.0, False, False),
        (100.0, math.inf, False, True),
        (math.inf, math.inf, False, False),
    ],
)
def test_a_job_moves_to_start_now_and_with_data_to_start_much_earlier(there_s, here_s, without_data, with_data):
    better = [moves.is_start_better(there_s, here_s, has_data=has_data) for has_data in (False, True)]

    assert better == [without_data, with_data]


@pytest.mark.parametrize(
    ("there_s", "here_s", "is_better"),
    [
        (540.0, 600.0, True),
        (541.0, 600.0, False),
        (9000.0, 10_000.0, True),
        (9001.0, 10_000.0, False),
        (600.0, math.inf, True),
        (math.inf, math.inf, False),
        (math.inf, 600.0, False),
    ],
)
def test_a_job_moves_to_be_done_sooner_by_a_minute_and_a_tenth(there_s, here_s, is_better):
    assert moves.is_end_better(there_s, here_s) is is_better
