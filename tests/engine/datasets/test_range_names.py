"""Searching the names of a range in one piece finds what looking at each of them would."""

from hypothesis import given
from hypothesis import strategies as st

from datasets.engine.range_names import find_holding, join_names

path = st.text("aAbB/\xff\n", min_size=1, max_size=8).map(lambda text: text.encode("latin-1"))
part = st.text("aAbB/\xff\n\0", max_size=3).map(lambda text: text.encode("latin-1"))


@given(st.lists(path, min_size=1, max_size=20), part)
def test_the_paths_that_hold_a_part_are_found_in_their_order(paths, wanted):
    names = join_names(paths)

    assert list(find_holding(names, wanted)) == [each for each in paths if wanted in each]
    assert list(find_holding(names, wanted, in_any_case=True)) == [
        each for each in paths if wanted.lower() in each.lower()
    ]
