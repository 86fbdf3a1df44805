"""Forecasts held against what happened: how often they held, and how new ones are corrected."""

import math
import random
from collections import deque

import pytest

from scheduler.engine.calibration import Correction, Coverage, Levels, Score, Started, compare, measure


def score(said_s: float, waited_s: float, wait_class: str = "by_right", *, goes_on: bool = False) -> Score:
    """Return one forecast of which the engine said P50, and twice as long as P90; nothing corrected it."""
    return Score(said_s, 2 * said_s, said_s, 2 * said_s, waited_s, wait_class, goes_on=goes_on)


def test_coverage_is_the_part_of_starts_that_came_by_then_as_told_and_as_the_engine_said():
    scores = [Score(4, 8, 10, 20, waited_s) for waited_s in (5, 10, 15, 25)]

    assert measure(scores) == Coverage(4, likely=0.5, late=0.75, raw_likely=0.0, raw_late=0.25)
    assert measure([Score(4, None, 10, None, 5)]) == Coverage(1, 1.0, None, 0.0, None)
    assert measure([]) is None


def test_the_parts_that_had_started_are_told_by_multiples_of_what_was_told():
    waits = [Score(10.0, 20.0, 10.0, 20.0, waited_s) for waited_s in (0.0, 5.0, 10.0, 30.0)]
    without_late = Score(10.0, None, 10.0, None, 15.0)

    started = compare([*waits, without_late], [0.0, 0.5, 1.0, 2.0])

    assert started == Started([0.0, 0.5, 1.0, 2.0], [0.2, 0.4, 0.6, 0.8], [0.25, 0.75, 0.75, 1.0])
    assert compare([], [1.0]) == Started([1.0], [], [])


@pytest.mark.parametrize(("past", "told", "count"), [(9, (540, 1080), 0), (10, (1140, 1140), 10)])
def test_ten_outcomes_are_the_fewest_that_correct(past, told, count):
    correction = Correction([score(540, 1140)] * past)

    assert (correction.count, correction.of(540, 1080, "by_right")) == (count, told)


def test_corrected_forecasts_would_have_held_for_a_half_and_nine_tenths():
    waits = [float(waited_s) for waited_s in range(10, 1010, 10)]
    random.Random(1).shuffle(waits)
    scores = [score(100, waited_s) for waited_s in waits]

    told = Correction(scores).of(100, 200, "by_right")

    held = [sum(waited_s < told_s + 1 for waited_s in waits[:33]) for told_s in told]
    assert held == [17, 31]


def test_of_equal_forecasts_the_newest_count():
    correction = Correction([score(100, 300)] * 40 + [score(100, 900)] * 60)

    assert correction.of(100, 200, "by_right") == (300, 300)


def test_a_class_of_waits_is_corrected_by_its_own_once_there_are_enough():
    scores = [score(100, 1000, "over_share")] * 20 + [score(100, 100, "by_right")] * 20 + [score(100, 400, "guard")]
    correction = Correction(scores)

    assert round(correction.of(100, 200, "over_share")[0]) == 1000
    assert round(correction.of(100, 200, "by_right")[0]) == 100
    assert correction.of(100, 200, "guard") == correction.of(100, 200, "never seen")


def test_long_and_short_waits_are_corrected_by_those_that_are_nearly_as_long():
    correction = Correction([score(10, 200)] * 30 + [score(10_000, 8_000)] * 30)

    assert round(correction.of(10, 20, "by_right")[0]) == 200
    assert round(correction.of(9_000, 18_000, "by_right")[0]) == 7_199


def test_nothing_is_told_to_last_longer_than_the_engine_says_or_any_wait_like_it_did():
    correction = Correction([score(1, 5_000)] * 30)

    assert correction.of(600, 1_200, "by_right") == (5_000, 5_000)
    assert correction.of(20_000, 40_000, "by_right") == (20_000, 40_000)


def test_what_starts_at_once_and_what_nobody_knows_stay_so():
    correction = Correction([score(100, 1000)] * 30)

    assert correction.of(0.0, 0.0, "by_right") == (0.0, 0.0)
    assert correction.of(math.inf, math.inf, "by_right") == (math.inf, math.inf)
    assert correction.of(100, math.inf, "by_right")[1] == math.inf


def test_a_wait_that_goes_on_counts_as_one_that_will_be_longer_than_by_now():
    ended = [score(540, waited_s) for waited_s in range(60, 1260, 60)]

    alone = Correction(ended).of(540, 1080, "by_right")
    with_new = Correction([*ended, *[score(540, 0, goes_on=True)] * 20]).of(540, 1080, "by_right")
    with_longer = Correction([*ended, *[score(540, 840, goes_on=True)] * 20]).of(540, 1080, "by_right")
    with_longest = Correction([*ended, *[score(540, 9000, goes_on=True)] * 20]).of(540, 1080, "by_right")

    assert (alone[0], with_new[0], with_longer[0], with_longest[0]) == (660, 660, 960, 1200)


def test_a_wait_that_goes_on_counts_only_among_those_that_are_alike():
    ended = [score(said_s, 2 * said_s) for said_s in range(100, 120)]
    others = [
        *[score(99, 5000, goes_on=True), score(120, 5000, goes_on=True)] * 50,
        *[score(110, 5000, "over_share", goes_on=True)] * 50,
    ]

    assert Correction([*ended, *others]).of(110, 220, "by_right") == Correction(ended).of(110, 220, "by_right")


def test_waits_that_go_on_do_not_make_enough_to_correct_by():
    correction = Correction([*[score(540, 1140)] * 9, *[score(540, 1140, goes_on=True)] * 50])

    assert (correction.count, correction.of(540, 1080, "by_right")) == (0, (540, 1080))


@pytest.mark.parametrize("seed", range(20))
def test_where_all_have_ended_the_least_ratio_is_taken_that_as_many_do_not_exceed_as_are_aimed_at(seed):
    dice = random.Random(seed)
    waits = sorted(dice.uniform(0, 5000) for _ in range(dice.randint(10, 20)))
    level = dice.uniform(0.01, 0.99)

    told = Correction([score(540, waited_s) for waited_s in waits], Levels(level)).of(540, 1080, "by_right")

    assert told[0] == pytest.approx(waits[min(math.ceil(level * (len(waits) + 1)), len(waits)) - 1])


def test_in_a_burst_the_short_waits_that_end_first_do_not_make_the_others_look_short():
    """The engine was right before, and 12 jobs of 42 found a gap, which nobody foresaw."""
    before, in_gaps = [score(600, 600)] * 8, [score(600, 60)] * 12
    waiting = [score(600, 300, goes_on=True)] * 30

    assert Correction([*in_gaps, *before]).of(600, 1200, "by_right")[0] == pytest.approx(60)
    assert Correction([*waiting, *in_gaps, *before]).of(600, 1200, "by_right")[0] == pytest.approx(600)


def test_what_is_aimed_at_moves_against_the_misses_within_bounds():
    late, soon, without_late = score(10, 50), score(10, 5), Score(10, None, 10, None, 5)

    assert Levels().after(late) == Levels(0.525, pytest.approx(0.918))
    assert Levels().after(soon) == Levels(0.475, pytest.approx(0.898))
    assert Levels().after(without_late) == Levels(0.475, 0.9)
    assert Levels(0.985, 0.99).after(late) == Levels(0.99, 0.99)
    assert Levels(0.01, 0.01).after(soon) == Levels(0.01, 0.01)


@pytest.mark.parametrize("seed", range(2))
def test_p50_and_p90_hold_on_waits_that_grow_and_shrink_and_whose_outcome_is_known_late(seed):
    """The engine's forecasts are off by a factor that differs by class, changes over time, and has heavy tails."""
    dice = random.Random(seed)
    levels, open_, scores = Levels(), deque[Score](), deque[Score](maxlen=500)
    outcomes = []
    for number in range(1_500):
        if number % 10 == 0:
            correction = Correction(list(scores), levels)
        wait_class = dice.choice(("by_right", "over_share"))
        said_s = math.exp(dice.uniform(2, 9))
        trend = 3 + 2 * math.sin(number / 200)
        factor = trend * dice.lognormvariate(0, 0.5) if wait_class == "by_right" else trend * dice.paretovariate(0.9)
        likely_s, late_s = correction.of(said_s, 2 * said_s, wait_class)
        open_.append(Score(said_s, 2 * said_s, likely_s, late_s, factor * said_s, wait_class))
        if len(open_) > 30:
            known = open_.popleft()
            levels = levels.after(known)
            scores.appendleft(known)
            outcomes.append(known)

    coverage = measure(outcomes)
    assert (coverage.likely, coverage.late) == (pytest.approx(0.5, abs=0.05), pytest.approx(0.9, abs=0.05))
