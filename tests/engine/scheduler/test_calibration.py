"""Forecasts held against what happened: how often they held, and how new ones are stretched."""

from scheduler.engine.calibration import Coverage, Score, Started, Stretch, compare, learn, measure


def test_coverage_is_the_part_of_starts_that_came_by_then():
    scores = [Score(10, 20, 10, 20, waited_s) for waited_s in (5, 10, 15, 25)]

    assert measure(scores) == Coverage(4, 0.5, 0.75)
    assert measure([]) is None


def test_a_pool_whose_jobs_start_twice_as_late_stretches_what_it_tells():
    assert learn([Score(10, 20, 10, 20, 20)] * 40) == Stretch(2.0, 1.0)


def test_too_few_scores_stretch_nothing():
    assert learn([Score(10, 20, 10, 20, 200)] * 29) == Stretch(1.0, 1.0)


def test_stretched_forecasts_would_have_held_for_a_half_and_nine_tenths():
    scores = [Score(100, 150, 100, 150, float(waited_s)) for waited_s in range(10, 1010, 10)]

    stretch = learn(scores)

    assert sum(score.waited_s <= 100 * stretch.likely for score in scores) in (50, 51)
    assert sum(score.waited_s <= 150 * stretch.late for score in scores) in (90, 91)


def test_the_parts_that_had_started_are_told_by_multiples_of_what_was_told():
    waits = [Score(10.0, 20.0, 10.0, 20.0, waited_s) for waited_s in (0.0, 5.0, 10.0, 30.0)]
    without_late = Score(10.0, None, 10.0, None, 15.0)

    started = compare([*waits, without_late], [0.0, 0.5, 1.0, 2.0])

    assert started == Started([0.0, 0.5, 1.0, 2.0], [0.2, 0.4, 0.6, 0.8], [0.25, 0.75, 0.75, 1.0])
    assert compare([], [1.0]) == Started([1.0], [], [])
