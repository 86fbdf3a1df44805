"""How long a job may yet run: by the lengths of runs like it, and never beyond its limit."""

import math

from scheduler.engine.run_times import UNKNOWN, RunTimes


def test_what_is_left_is_a_quantile_of_the_runs_that_were_longer():
    runs = RunTimes((10, 20, 30, 40), ran_s=15)

    assert [runs.left_s(part) for part in (0.1, 0.5, 0.9)] == [5, 15, 25]


def test_one_that_outlasts_all_others_doubles_its_time_with_a_chance_of_one_half():
    runs = RunTimes((10, 20), ran_s=100)

    assert (runs.left_s(0.5), round(runs.left_s(0.9))) == (100, 900)


def test_a_limit_of_time_ends_what_would_run_longer():
    runs = RunTimes((10, 20), ran_s=100, limit_s=150)

    assert (runs.left_s(0.5), runs.left_s(0.9)) == (50, 50)
    assert RunTimes((), ran_s=100, limit_s=150).left_s(0.5) == 50
    assert RunTimes((), ran_s=200, limit_s=150).left_s(0.5) == 0


def test_a_stopped_job_begins_anew():
    assert RunTimes((10, 20), ran_s=15).left_s(0.9, starts_anew=True) == 20


def test_without_history_and_limit_nothing_is_known():
    assert UNKNOWN.left_s(0.5) == math.inf
    assert not UNKNOWN.is_known
    assert UNKNOWN.is_certain


def test_what_has_one_length_only_is_certain():
    assert RunTimes((60, 60)).is_certain
    assert not RunTimes((60, 61)).is_certain
    assert not RunTimes((60,), ran_s=61).is_certain
