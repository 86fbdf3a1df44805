import math

from hypothesis import given
from hypothesis import strategies as st

from experiments.engine import stretches
from experiments.engine.stretches import Levels, Point, Stretch

VALUES = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, 0.0])


def points_of(values: list[float]) -> list[Point]:
    return [Point(place, 2 * place, value, 1_000_000 * place) for place, value in enumerate(values)]


def record(values: list[float], *, piece: int) -> tuple[dict[int, list[Stretch]], Levels]:
    """Thin a curve as it comes in pieces, with what is open packed in between."""
    complete: dict[int, list[Stretch]] = {}
    packed = b""
    for start in range(0, len(values), piece):
        levels = Levels(packed)
        for point in points_of(values)[start : start + piece]:
            for level, stretch in levels.add(point):
                complete.setdefault(level, []).append(stretch)
        packed = levels.pack()
    return complete, Levels(packed)


def facts(stretch: Stretch) -> tuple[object, ...]:
    return (stretch.size, repr(stretch.lowest.value), repr(stretch.highest.value), stretch.last.place)


@given(st.lists(VALUES, min_size=1, max_size=400), st.integers(1, 200))
def test_the_stretches_of_every_level_hold_all_points_and_their_extremes(values, piece):
    complete, levels = record(values, piece=piece)

    for level in range(4):
        parts = complete.get(level, []) + levels.rest_above(level)
        assert sum(part.size for part in parts) == len(values)
        assert all(part.size == stretches.size_of(level) for part in complete.get(level, []))
        assert parts[-1].last.place == len(values) - 1
        numbers = [value for value in values if not math.isnan(value)]
        if numbers:
            assert min(part.lowest.value for part in parts if not math.isnan(part.lowest.value)) == min(numbers)
            assert max(part.highest.value for part in parts if not math.isnan(part.highest.value)) == max(numbers)
        shown = [point.place for part in parts for point in part.points]
        assert shown == sorted(shown)


@given(st.lists(VALUES, min_size=1, max_size=60), st.integers(1, 20))
def test_gathering_cuts_into_even_pieces_that_hold_everything(values, most):
    pieces = stretches.gather(points_of(values), most)

    assert len(pieces) == min(most, len(values))
    assert [point.place for piece in pieces for point in piece] == list(range(len(values)))
    assert max(map(len, pieces)) - min(map(len, pieces)) <= 1


@given(st.lists(VALUES, min_size=1, max_size=20))
def test_what_is_packed_comes_back(values):
    parts = [Stretch.of([point]) for point in points_of(values)]

    found = stretches.unpack(b"".join(part.pack() for part in parts))

    assert [facts(part) for part in found] == [facts(part) for part in parts]


def test_nan_is_neither_lowest_nor_highest_where_there_is_a_number():
    nan, one, two = points_of([math.nan, 1.0, 2.0])
    assert Stretch.of([nan, two, one]) == (3, one, two, one)
    assert Stretch.join([Stretch.of([nan]), Stretch.of([two, one])]) == (3, one, two, one)


def test_the_level_is_the_highest_with_enough_stretches():
    found = [stretches.level_for(points, 1000) for points in (7_999, 8_000, 31_999, 32_000, 128_000, 1_000_000)]

    assert found == [None, 0, 0, 1, 2, 3]
