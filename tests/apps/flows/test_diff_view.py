"""The texts of two versions, compared line by line with bounded work."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from flows.web.versions import DiffLine, compare_texts

lines = st.lists(st.sampled_from(["a", "b", "c", "", "- x", "+ y"]), max_size=40)


@given(lines, lines)
def test_the_lines_that_came_and_went_lead_from_one_text_to_the_other(before, after):
    shown = compare_texts("\n".join([*before, "."]), "\n".join([*after, "."]))

    removed, added = (Counter(line.text[1:] for line in shown if line.kind == kind) for kind in ("removed", "added"))
    assert Counter(before) - removed + added == Counter(after)
    assert removed <= Counter(before)


def test_one_changed_line_of_a_long_text_is_shown_with_its_number():
    old = [f"line {number}" for number in range(50_000)]
    new = [*old[:30_000], "changed", *old[30_001:]]

    shown = compare_texts("\n".join(old), "\n".join(new))

    assert shown == [
        DiffLine("place", "@@ -29998,7 +29998,7 @@"),
        *(DiffLine("", f" line {number}") for number in (29_997, 29_998, 29_999)),
        DiffLine("removed", "-line 30000"),
        DiffLine("added", "+changed"),
        *(DiffLine("", f" line {number}") for number in (30_001, 30_002, 30_003)),
    ]


def test_long_texts_that_differ_everywhere_count_as_replaced():
    before, after = ("\n".join(f"{word} {number % 300}" for number in range(60_000)) for word in ("a", "b"))

    shown = compare_texts(before, after)

    assert shown[:2] == [DiffLine("place", "@@ from line 1 on @@"), DiffLine("removed", "-a 0")]
    assert len(shown) == 5000
