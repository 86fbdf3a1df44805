"""What is likely, learnt from earlier durations."""

import pytest

from compute.engine.forecast import Forecast, forecast_from, likeness


def test_without_history_there_is_no_forecast():
    assert forecast_from([]) is None


def test_half_were_done_by_the_likely_time_and_nine_of_ten_by_the_late_one():
    assert forecast_from([10, 9, 8, 7, 6, 5, 4, 3, 2, 1]) == Forecast(likely_s=5, late_s=9, count=10)


def test_what_has_not_ended_is_never_at_a_hundred_percent():
    forecast = Forecast(100, 120, 3)

    assert [forecast.percent_at(seconds) for seconds in (0, 50, 99.9, 500)] == [0, 50, 99, 99]
    assert [forecast.left_at(seconds) for seconds in (0, 60, 100)] == [100, 40, None]


@pytest.mark.parametrize(
    ("command", "purpose"),
    [
        ("cp -R code . || exit 1\npython train.py --lr 0.1", "python train.py"),
        (["python", "-m", "train", "--lr=1"], "python train"),
        ("echo 3 4 one two three", "echo one two"),
        ("", ""),
    ],
)
def test_commands_that_begin_alike_are_of_one_purpose(command, purpose):
    assert likeness(command) == purpose


def test_a_step_of_a_flow_is_known_by_its_name():
    assert likeness("whatever", "digits", "train") == "digits/train"
