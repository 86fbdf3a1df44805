"""Patterns are matched in one step for each character of a path, and mean what their items say."""

from functools import cache
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearline.content.patterns import ANY_LETTER, OneOf, Patterns, Wild, parse_glob


def matches_slowly(items, path):
    """Try everything, as the definition of each item says."""

    @cache
    def match(item_at, at):
        if item_at == len(items):
            return at == len(path)
        item, ends = items[item_at], range(at, len(path) + 1)
        if item is Wild.NAME:
            taken = [end for end in ends if "/" not in path[at:end]]
        elif item is Wild.ANY:
            taken = list(ends)
        elif item is Wild.FOLDERS:
            taken = [at, *(end for end in ends if path[at:end].endswith("/"))]
        elif isinstance(item, OneOf):
            taken = [at + 1] if at < len(path) and item.holds(path[at]) else []
        else:
            taken = [at + 1] if path[at : at + 1] == item else []
        return any(match(item_at + 1, end) for end in taken)

    return match(0, 0)


SETS = st.builds(
    OneOf,
    st.lists(st.sampled_from([("a", "a"), ("a", "c"), ("c", "a"), ("\0", "\U0010ffff")])).map(tuple),
    st.booleans(),
)
GLOBS = st.lists(st.sampled_from([*"ab/*?é", "**", "**/", "/**", "[ab]", "[!a]", "[a-c]"]), max_size=12).map("".join)
PATHS = st.lists(st.sampled_from([*"abcé/", "\udcff"]), max_size=12).map("".join)


@given(GLOBS, PATHS)
def test_a_pattern_matches_what_trying_everything_matches(glob, path):
    assert Patterns([parse_glob(glob)]).matches(path) == matches_slowly(parse_glob(glob), path)


@given(st.lists(st.sampled_from([*"ab/"]) | SETS | st.just(Wild.ANY) | st.just(ANY_LETTER), max_size=8), PATHS)
def test_any_items_match_what_trying_everything_matches(items, path):
    assert Patterns([items]).matches(path) == matches_slowly(items, path)


@given(st.lists(GLOBS, max_size=5), st.lists(PATHS, max_size=5))
def test_of_several_patterns_the_last_that_matches_is_told(globs, paths):
    patterns = Patterns(map(parse_glob, globs))

    for path in paths:
        found = [index for index, glob in enumerate(globs) if matches_slowly(parse_glob(glob), path)]
        assert patterns.last_match(path) == (found[-1] if found else None)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 40 + "*b", "a" * 200),
        ("**a" * 1000 + "b", "a" * 4096),
        ("**/" * 1000 + "b", "a/" * 2000 + "a"),
        ("*?" * 2000, "ab" * 2048 + "/"),
        ("[a-z]*" * 600 + "!", "az" * 2048),
    ],
)
def test_a_hostile_pattern_costs_a_step_for_each_character(pattern, path):
    patterns = Patterns([parse_glob(pattern)])

    assert not patterns.matches(path)
    assert patterns.steps <= len(path)


@given(GLOBS, PATHS)
def test_any_pattern_costs_at_most_a_step_for_each_character_and_none_the_second_time(glob, path):
    patterns = Patterns([parse_glob(glob)])

    patterns.matches(path)
    first = patterns.steps
    patterns.matches(path)

    assert first <= len(path)
    assert patterns.steps == first


@given(st.lists(st.text("ab*?/"), max_size=4), st.text("ab/"))
def test_the_folders_of_a_path_are_matched_in_one_pass_as_each_is_alone(globs, path):
    patterns, alone = (Patterns(map(parse_glob, globs)) for _ in range(2))
    ends = [at for at, char in enumerate(path) if char == "/"]

    assert list(patterns.last_matches_of_folders(path)) == [alone.last_match(path[:end]) for end in ends]
    assert patterns.steps <= len(path)


def test_what_is_remembered_is_bounded_and_forgetting_changes_no_answer():
    patterns = Patterns([parse_glob("**a" + "?" * 300 + "b")])
    most = patterns._most_steps
    letters = Random(1)
    texts = ["".join(letters.choices("ab", k=500)) for _ in range(200)]

    answers = [patterns.matches(text) for text in texts]

    assert patterns.steps > 2 * most
    assert sum(map(len, patterns._states.values())) <= most
    assert answers == [text[198] == "a" and text[499] == "b" for text in texts]


@given(st.text(max_size=30))
def test_any_text_is_a_pattern(text):
    Patterns([parse_glob(text)]).matches(text)
