"""Which outputs a step's patterns keep."""

import pytest

from core import globs


@pytest.mark.parametrize(
    ("path", "pattern", "is_kept"),
    [
        ("a.png", "*.png", True),
        ("x/a.png", "*.png", False),
        ("x/y/a.png", "**.png", True),
        ("report.html", "**/report.html", True),
        ("x/report.html", "**/report.html", True),
        ("models/x/y", "models/**", True),
        ("models/x/y", "models/", True),
        ("models/x", "./models/?", True),
        ("a[1].txt", "a[1].txt", True),
        ("a1.txt", "a[1].txt", False),
        ("é.txt", " ?.txt ", True),
    ],
)
def test_a_pattern_keeps(path, pattern, is_kept):
    assert globs.matches_any(path, [pattern]) == is_kept


def test_one_of_several_patterns_is_enough():
    assert globs.matches_any("a.png", ["*.txt", "*.png"])
    assert not globs.matches_any("a.png", [])


def test_patterns_beyond_the_limits_match_nothing_and_leave_the_others_alone():
    assert globs.matches_any("a.png", ["*a" * 3000 + "*b", "*.png"])
    assert not globs.matches_any("a.txt", ["**" + "*" * 5000])


def test_a_step_with_the_pattern_that_froze_the_product_is_matched_in_a_step_for_each_character():
    name = "a" * 200

    assert not globs.matches_any(name, ("*a" * 30 + "*b",))
    assert globs._compiled(("*a" * 30 + "*b",))[1].steps <= len(name)


def test_paths_without_wildcards_match_themselves_beside_patterns():
    patterns = ["./a[1].txt", "models/", " b?.txt "]

    kept = ["a[1].txt", "models/x/y", "b1.txt"]
    assert [path for path in [*kept, "a1.txt", "models", "b.txt"] if globs.matches_any(path, patterns)] == kept
