from itertools import accumulate

from compute.engine.gpu_history import MOST, Reading, append


def test_a_long_history_keeps_the_newest_readings_as_they_were_and_joins_older_ones():
    readings = [Reading(30.0 * number, number % 100, number) for number in range(10 * MOST)]

    *_, history = accumulate(readings, append, initial=[])

    assert len(history) <= MOST
    assert [each.at_s for each in history] == sorted({each.at_s for each in history})
    assert history[-10:] == readings[-10:]
    assert (history[0].memory_used_bytes or 0) > 0
    mean = sum(each.percent or 0 for each in history) / len(history)
    assert 40 < mean < 60


def test_what_was_not_measured_counts_for_nothing_where_readings_are_joined():
    full = [Reading(float(number), None if number % 2 else 40, None) for number in range(MOST)]

    history = append(full, Reading(1e6, 7, 5))

    assert history[0] == Reading(1.0, 40, None)
    assert history[-1] == Reading(1e6, 7, 5)
    assert len(history) == MOST // 2 + 1
