"""Ids of one process sort by their creation, whatever the clock does."""

from concurrent.futures import ThreadPoolExecutor

from core import ids

NOON_MS = 1_795_262_400_000


def test_ids_of_one_millisecond_sort_by_their_creation():
    made = [ids.new_id("row", now_ms=NOON_MS) for _ in range(1000)]

    assert made == sorted(set(made))


def test_an_id_made_while_the_clock_goes_back_sorts_after_those_before():
    first, second = ids.new_id("row", now_ms=NOON_MS + 5), ids.new_id("row", now_ms=NOON_MS)

    assert second > first


def test_an_id_begins_with_its_prefix_and_its_millisecond(monkeypatch):
    monkeypatch.setattr(ids, "_last", 0)

    first, second = ids.new_id("row", now_ms=NOON_MS), ids.new_id("row", now_ms=NOON_MS + 1)

    assert (first[:14], second[:14]) == ("row_01m7yzmhg0", "row_01m7yzmhg1")
    assert (len(first), len(second)) == (24, 24)


def test_threads_that_make_ids_at_once_make_no_id_twice_and_each_its_own_in_order():
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: [ids.new_id("row", now_ms=NOON_MS) for _ in range(500)], range(8)))

    assert all(own == sorted(own) for own in made)
    assert len({id_ for own in made for id_ in own}) == 4000
