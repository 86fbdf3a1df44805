"""Which lines of a text changed."""

from hypothesis import given
from hypothesis import strategies as st

from datasets.engine.text_diff import DiffLine, diff_lines

LINES = st.lists(st.sampled_from("abc"), max_size=30)


def test_a_changed_line_stands_among_its_neighbours():
    before = [str(number) for number in range(1, 11)]
    after = [*before[:4], "five", *before[5:]]

    assert list(diff_lines(before, after)) == [
        DiffLine("gap", None, None, ""),
        DiffLine("same", 2, 2, "2"),
        DiffLine("same", 3, 3, "3"),
        DiffLine("same", 4, 4, "4"),
        DiffLine("removed", 5, None, "5"),
        DiffLine("added", None, 5, "five"),
        DiffLine("same", 6, 6, "6"),
        DiffLine("same", 7, 7, "7"),
        DiffLine("same", 8, 8, "8"),
        DiffLine("gap", None, None, ""),
    ]


def test_a_new_text_has_only_added_lines():
    assert list(diff_lines([], ["a", "b"])) == [DiffLine("added", None, 1, "a"), DiffLine("added", None, 2, "b")]


def test_equal_texts_differ_in_nothing():
    assert list(diff_lines(["a"], ["a"])) == []


@given(LINES, LINES)
def test_every_line_that_is_shown_stands_where_it_says(before, after):
    for line in diff_lines(before, after):
        if line.before is not None:
            assert before[line.before - 1] == line.text
        if line.after is not None:
            assert after[line.after - 1] == line.text
