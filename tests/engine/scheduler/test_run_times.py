"""How long a job may yet run: by the lengths of runs like it, ended or not, and never beyond its limit."""

import math

from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.run_times import UNKNOWN, Run, RunTimes, each_once, learn

PARTS = st.integers(0, 63).map(lambda number: number / 64)
SECONDS = st.integers(1, 100).map(float)
RUNS = st.lists(st.builds(Run, SECONDS, st.booleans()), max_size=12)


def test_what_is_left_is_a_quantile_of_the_runs_that_were_longer():
    runs = RunTimes(each_once(10, 20, 30, 40), ran_s=15)

    assert [runs.left_s(part) for part in (0.1, 0.5, 0.9)] == [5, 15, 25]


def test_one_that_outlasts_all_others_doubles_its_time_with_a_chance_of_one_half():
    runs = RunTimes(each_once(10, 20), ran_s=100)

    assert (runs.left_s(0.5), round(runs.left_s(0.9))) == (100, 900)


def test_a_limit_of_time_ends_what_would_run_longer():
    runs = RunTimes(each_once(10, 20), ran_s=100, limit_s=150)

    assert (runs.left_s(0.5), runs.left_s(0.9)) == (50, 50)
    assert RunTimes(ran_s=100, limit_s=150).left_s(0.5) == 50
    assert RunTimes(ran_s=200, limit_s=150).left_s(0.5) == 0


def test_a_stopped_job_begins_anew():
    assert RunTimes(each_once(10, 20), ran_s=15).left_s(0.9, starts_anew=True) == 20


def test_without_history_and_limit_nothing_is_known():
    assert UNKNOWN.left_s(0.5) == math.inf
    assert UNKNOWN.is_certain


def test_what_has_one_length_only_is_certain():
    assert RunTimes(each_once(60, 60)).is_certain
    assert not RunTimes(each_once(60, 61)).is_certain
    assert not RunTimes(each_once(60), ran_s=61).is_certain
    assert RunTimes(learn([Run(60), Run(59, goes_on=True)])).is_certain
    assert not RunTimes(learn([Run(60), Run(60, goes_on=True)])).is_certain


# --- runs that go on


def test_a_run_that_goes_on_counts_for_those_that_are_longer_than_it_is():
    lengths = learn([Run(10), Run(20, goes_on=True), Run(30), Run(40)])

    # One in four is 10; the weight of the one that goes on is shared by 30 and 40.
    assert lengths.seconds == (10, 30, 40)
    assert lengths.longer == (4, 3, 1.5, 0)


def test_one_that_outlasts_all_that_have_ended_is_twice_as_long_as_by_now_with_a_chance_of_one_half():
    lengths = learn([Run(10), Run(90, goes_on=True)])

    assert [lengths.length_s(part, 0) for part in (0.4, 0.75, 0.98)] == [10, 180, 900]
    assert [lengths.length_s(part, 90) for part in (0.1, 0.5, 0.9)] == [100, 180, 900]


def test_where_all_go_on_nothing_is_known_but_the_limit():
    lengths = learn([Run(900, goes_on=True), Run(600, goes_on=True)])

    assert RunTimes(lengths, ran_s=600).left_s(0.5) == math.inf
    assert RunTimes(lengths, ran_s=600, limit_s=1000).left_s(0.5) == 400


def test_a_run_counts_half_after_so_many_later_ones():
    lengths = learn([Run(30), Run(20), Run(10)], half_life=1)

    assert (lengths.seconds, lengths.longer) == ((10, 20, 30), (1.75, 1.5, 1, 0))


def test_a_batch_that_runs_longer_than_earlier_jobs_is_seen_before_the_first_of_it_has_ended():
    batch = [Run(1000.0 - number, goes_on=True) for number in range(100)]
    earlier = [Run(50.0)] * 900 + [Run(2500.0)] * 100

    assert RunTimes(learn(earlier, 50)).left_s(0.5) == 50
    assert RunTimes(learn([*batch, *earlier])).left_s(0.5) == 50
    assert RunTimes(learn([*batch, *earlier[::-1]], 50)).left_s(0.5) == 2500


# --- what holds for all


@given(st.lists(SECONDS, min_size=1, max_size=12), PARTS, SECONDS)
def test_without_runs_that_go_on_each_longer_length_is_as_likely_as_the_next(seconds, part, ran_s):
    longer = sorted(length for length in seconds if length > ran_s)

    expected = longer[int(part * len(longer))] if longer else ran_s / (1 - part)

    assert each_once(*seconds).length_s(part, ran_s) == expected


@given(RUNS, SECONDS, PARTS, st.integers(0, 100), st.sampled_from([math.inf, 50, 3]))
def test_a_later_run_that_goes_on_makes_no_length_smaller_as_far_as_it_has_come(runs, by_now_s, part, ran_s, half_life):
    last_end_s = max((run.length_s for run in runs if not run.goes_on), default=math.inf)

    without, with_it = learn(runs, half_life), learn([Run(by_now_s, goes_on=True), *runs], half_life)

    smallest_s = min(without.length_s(part, ran_s), max(last_end_s, by_now_s))
    assert with_it.length_s(part + 1e-9, ran_s) >= smallest_s * (1 - 1e-9)


@given(RUNS, PARTS, PARTS, st.integers(0, 100), st.sampled_from([math.inf, 50, 3]))
def test_a_larger_part_has_no_smaller_length_and_all_lengths_are_longer_than_it_ran(runs, one, other, ran_s, half_life):
    lengths = learn(runs, half_life)

    smaller, larger = (lengths.length_s(part, ran_s) for part in sorted((one, other)))

    assert ran_s <= smaller <= larger
