"""The axis of a wait: what is held until when, when data is there, and where else a job would be done."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute.engine.outlook import DataState, HolderEnd, Outlook, Place
from compute.engine.wait_axis import Bar, axis_of

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
GB = 10**9


def in_min(minutes: float | None) -> datetime | None:
    return None if minutes is None else NOW + timedelta(minutes=minutes)


def place(template, starts, late, done, *, data=None, is_chosen=False) -> Place:
    run_s = None if done is None else 60 * (done - starts)
    return Place(template, "lab", in_min(starts), in_min(late), run_s, in_min(done), is_chosen, False, data)


def data(missing_gb: int, ready: float | None) -> DataState:
    return DataState(250 * GB, missing_gb * GB, "site", in_min(ready))


def outlook(*places: Place) -> Outlook:
    holder = HolderEnd("pretrain", "team-d", 2000, in_min(20), is_borrowing=False, is_ahead=False)
    return Outlook("by_right", NOW, in_min(20), in_min(34), 1, [], None, 2000, [holder], [], places, 0)


def test_the_chosen_place_comes_first_with_its_holder_its_data_and_its_run():
    near = place("near.two", 20, 41, 83, data=data(41, 10.5), is_chosen=True)
    far = place("far.two", 0, 0, 84, data=data(250, 42))

    axis = axis_of(outlook(far, near), now=NOW)

    assert [(row.place, row.thing, row.is_chosen) for row in axis.rows] == [
        ("near.two", "GPUs", True),
        ("near.two", "data", True),
        ("far.two", "GPUs", False),
        ("far.two", "data", False),
    ]
    # The present moment is at 16; what remains is 84 minutes, so a minute is one.
    assert [bar for row in axis.rows for bar in row.bars] == [
        Bar("held", 0, 36, "team-d holds 2"),
        Bar("maybe", 36, 21),
        Bar("runs", 57, 42, "this job"),
        Bar("there", 0, 16, "209 GB"),
        Bar("moves", 16, 10.5, "41.0 GB move"),
        Bar("runs", 16, 84, "would run"),
        Bar("moves", 16, 42, "250 GB move"),
    ]
    assert [(tick.left, tick.text) for tick in axis.ticks] == [
        (16, "now"),
        (36, "in 20 min"),
        (56, "in 40 min"),
        (76, "in 1 h"),
    ]


def test_what_is_not_known_reaches_the_end_and_says_so():
    axis = axis_of(outlook(place("near.two", 20, None, None, data=data(41, None), is_chosen=True)), now=NOW)

    assert [bar for row in axis.rows for bar in row.bars] == [
        Bar("held", 0, 100, "team-d holds 2"),
        Bar("there", 0, 16, "209 GB"),
        Bar("moves", 16, 84, "41.0 GB move, at no known rate"),
    ]


def test_without_any_known_time_there_is_no_axis():
    assert axis_of(outlook(place("near.two", None, None, None, is_chosen=True)), now=NOW) is None
    assert axis_of(outlook(place("near.two", 0, 0, 5, is_chosen=True)), now=in_min(6)) is None


def test_a_place_that_takes_much_longer_runs_off_the_end():
    axis = axis_of(outlook(place("near.two", 5, 5, 10, is_chosen=True), place("far.two", 0, 0, 900)), now=NOW)

    assert axis.rows[1].bars == [Bar("runs", 16, 84, "would run")]
    assert axis.rows[0].bars[0] == Bar("held", 0, pytest.approx(16 + 84 / 6), "team-d holds 2")


minutes = st.none() | st.floats(-1000, 1000)


@given(st.lists(st.tuples(minutes, minutes, minutes, minutes, st.booleans()), max_size=4))
def test_no_bar_leaves_the_axis_whatever_is_known(facts):
    places = [
        Place("t", "lab", in_min(starts), in_min(late), None, in_min(done), is_chosen, False, data(1, ready))
        for starts, late, done, ready, is_chosen in facts
    ]

    axis = axis_of(outlook(*places), now=NOW)

    for bar in [bar for row in (axis.rows if axis else ()) for bar in row.bars]:
        assert 0 <= bar.left <= bar.left + bar.width <= 100.001
        assert bar.width >= 0
    assert all(0 <= tick.left < 100 for tick in (axis.ticks if axis else ()))
