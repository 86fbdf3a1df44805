"""Paths as columns: what is read back is what was written, and equal paths have equal columns."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from nearline.content.range_entries import PathColumns
from tests.engine.content.strategies import PATHS


@given(st.lists(PATHS, max_size=12))
def test_paths_survive_the_way_through_their_columns(paths):
    columns = PathColumns.of(paths)

    assert PathColumns(columns.shared, columns.suffix_lengths, columns.suffixes).paths == paths
    assert columns.size_bytes == sum(map(len, paths))


def test_a_path_shares_the_folder_that_the_one_before_lies_in():
    columns = PathColumns.of([b"a", b"a/b", b"a/c", b"a/d/e", b"a/d/f", b"g"])

    assert list(columns.shared) == [0, 0, 2, 0, 4, 0]
    assert columns.suffixes == b"aa/bca/d/efg"


@given(st.lists(st.tuples(st.integers(0, 6), st.binary(max_size=4)), max_size=12))
def test_columns_that_no_writer_makes_are_read_as_they_are_defined(rows):
    expected = [b""]
    for length, suffix in rows:
        expected.append(expected[-1][:length] + suffix)
    lengths = array("H", [length for length, _ in rows])
    suffixes = [suffix for _, suffix in rows]

    columns = PathColumns(lengths, array("H", map(len, suffixes)), b"".join(suffixes))

    assert columns.paths == expected[1:]
