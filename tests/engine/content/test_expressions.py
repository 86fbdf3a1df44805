"""Regular expressions of strangers: what they mean, what they may be, and that none takes long."""

import re
from random import Random

import pytest

from nearline.content.expressions import MAX_LENGTH, BadExpression, Expression, TooCostly

PATHS = ["", "a", "b/a.png", "train/img_001.png", "train/img_1.PNG", "x{2}", "a-b_c", "äß/é.txt", "a.b", "\udcff"]


@pytest.mark.parametrize(
    "text",
    [
        *("a", "^a", "a$", "^a$", "^$", "a|^b", "img_\\d{3}\\.png$", "(?:png|txt)$", "[a-c]/", "[^a-z]", "\\W", "\\s"),
        *("(a|b)+/", "x\\{2\\}", "a{2,}", "m{0,1}g", "^.{1,5}$", "[\\w.]+\\.[A-Z]{3}$", "[]a]", "[a-]b", "é", "(a|)b"),
    ],
)
def test_an_expression_means_what_it_means_elsewhere(text):
    known = re.compile(text.replace("$", r"\Z"), re.DOTALL)

    assert [Expression(text).matches(path) for path in PATHS] == [known.search(path) is not None for path in PATHS]


@pytest.mark.parametrize("text", ["a", "^a$", "a|.*\\.png", "(a|b)/.*", "train/img_\\d+\\..{3}", ""])
def test_a_whole_match_leaves_nothing_of_the_path(text):
    known = re.compile(text, re.DOTALL)

    matched = [Expression(text, is_whole=True).matches(path) for path in PATHS]

    assert matched == [known.fullmatch(path) is not None for path in PATHS]


@pytest.mark.parametrize(
    ("text", "part"),
    [("train/.*_\\d+\\.png$", "train/"), ("(a|b)long", "long"), ("ab*cde", "cde"), ("ab|cd", ""), ("[ab]", "")],
)
def test_it_knows_a_text_that_every_match_holds(text, part):
    assert Expression(text).part == part


@pytest.mark.parametrize(
    "text",
    [
        *("(", ")", "a**", "*a", "[a", "[b-a]", "a{", "a{x}", "a{5,2}", "a{101}", "\\", "\\b", "(?=a)", "a^b", "a$b"),
        *("(a$)", "(a{100}){100}", "(" * 21 + "a" + ")" * 21, "a" * (MAX_LENGTH + 1)),
    ],
)
def test_what_is_not_supported_is_refused(text):
    with pytest.raises(BadExpression):
        Expression(text)


def test_what_makes_a_backtracking_matcher_hang_is_one_step_for_each_character():
    assert not Expression("^(a+)+b$").matches("a" * 4000)


def test_an_expression_whose_states_multiply_is_given_up():
    letters = "".join(Random(1).choices("ab", k=40_000))

    with pytest.raises(TooCostly):
        Expression("(a|b)*a(a|b){20}$").matches(letters)
