"""Texts of strangers are read in time that grows with their length: a megabyte of the worst takes seconds, not hours."""

import contextlib
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core import globs, units
from core.errors import InvalidInput
from experiments.engine import filters, recorded
from experiments.errors import InvalidFilter
from flows.engine import checks, expressions
from flows.errors import InvalidExpression

MEGA = 1_000_000


@pytest.mark.parametrize("text", ["${{" * MEGA, "${{ a }" * MEGA, "}}" * MEGA, "${{" + " " * MEGA])
def test_a_text_of_beginnings_of_references_holds_none(text):
    assert list(expressions.names_in(text)) == []
    assert expressions.fill(text, {}) == text


@pytest.mark.parametrize(
    "text", ["1" * MEGA + "x", "1" * 4000 + "e" + "1" * MEGA + "x", "a." + "-" * MEGA, " " * MEGA + "$"]
)
def test_a_condition_that_cannot_be_read_is_refused(text):
    with pytest.raises(InvalidExpression):
        expressions.parse(text)


def test_digits_that_are_no_number_are_a_text():
    assert recorded.number_of("1" * recorded.MAX_TEXT + "x") is None


@pytest.mark.parametrize("parse", [units.parse_bytes, units.parse_duration])
@pytest.mark.parametrize("text", ["1" + " " * MEGA + "x", "1" * 300 + "x", " " * MEGA])
def test_a_quantity_with_a_megabyte_of_spaces_is_refused(parse, text):
    with pytest.raises(InvalidInput):
        parse(text)


HALF = 2**18


@pytest.mark.parametrize(
    "text",
    [
        "x: [" + "a," * (HALF - 3) + "]",
        "{" + "a," * (HALF - 1) + "}",
        "[" * HALF + "]" * HALF,
        "- " * HALF,
        "? " * HALF,
        "x:\n" + "- &a b\n" * 70_000,
        "x:\n- &a b\n" + "- *a\n" * 100_000,
        "x:\n  y: b\n" + "  y: b\n" * 70_000,
        "".join(f"%TAG !a{number}! b\n" for number in range(30_000)),
        "---\na\n" * 80_000,
        'x: "' + "a\n" * (HALF - 4) + '"',
        "x: " + "9" * (2 * HALF - 3),
        "x: " + "1_" * (HALF - 3) + ".",
    ],
    ids=range(13),
)
def test_half_a_megabyte_of_yaml_is_read_or_refused(text):
    assert 0 < len(checks.check(text, "yaml").problems) <= 2000


def test_of_many_mistaken_names_the_first_hundred_are_compared_with_those_there_are():
    after = [f"atep-{number:04}" for number in range(300)]
    steps = [{"name": f"step-{number:04}", "command": "x"} for number in range(300)]
    flow = {"flow": "f", "steps": [*steps, {"name": "last", "command": "x", "after": after}]}

    messages = [problem.message for problem in checks.check(json.dumps(flow), "json").problems]

    assert len(messages) == 300
    assert sum("Did you mean" in message for message in messages) == 100


def test_a_key_that_is_written_often_is_told_once():
    text = "{" + ",".join(f'"{number}":0' for number in range(100_000)) + ',"7":0}'

    found = checks.check(text, "json").problems

    assert [problem.path for problem in found if problem.code == "duplicate_key"] == ["7"]


def test_a_parent_that_is_named_often_is_told_once():
    flow = {
        "flow": "f",
        "steps": [{"name": "a", "command": "x"}, {"name": "b", "command": "x", "after": ["a"] * 100_000}],
    }

    assert [problem.code for problem in checks.check(json.dumps(flow), "json").problems] == ["duplicate_parent"]


@pytest.mark.parametrize(
    "flow",
    [
        {"flow": "f", "steps": [{"name": "a", "command": "x", "after": [f"b{number}" for number in range(100_000)]}]},
        {"flow": "f", "steps": [{"name": 1, "command": 2}] * 50_000},
        {"flow": "f", "steps": [{"name": "a", "command": "x", "after": ["b" * MEGA, "c" * (MEGA // 2)]}]},
    ],
)
def test_of_endless_problems_a_thousand_of_a_kind_are_told(flow):
    assert 0 < len(checks.check(json.dumps(flow), "json").problems) <= 2000


def test_tasks_of_another_platform_with_endless_problems_are_told():
    flow = {"flow": "f", "tasks": [], "relations": [{"from": f"a{n}", "to": f"b{n}"} for n in range(40_000)]}

    assert len(checks.check(json.dumps(flow), "json").problems) > 0


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        (["*a" * (globs.LONGEST // 2), *["a" * globs.LONGEST] * 15], None),
        (["*a" * (globs.LONGEST // 2), "*"], "The patterns with wildcards have more than 4096 characters together."),
        (["a" * globs.LONGEST, "a/"], None),
        (["a" * (globs.LONGEST + 1)], "A pattern has at most 4096 characters; this one has 4097."),
        (["*" * globs.LONGEST] * 17, "The patterns have more than 65536 characters together."),
    ],
)
def test_patterns_of_outputs_have_bounds(outputs, words):
    flow = {"flow": "f", "steps": [{"name": "a", "command": "x", "outputs": outputs}]}

    found = checks.check(json.dumps(flow), "json").problems

    assert [problem.message for problem in found] == ([words] if words else [])


WORDS = st.sampled_from(
    [*" ()<>=!,.\"'\\", "and", "or", "not", "in", "contains", "metrics.a", "params.", 'tags."x y"', "flow", "took", "1",
     "1e999", "²", "\ud800", "\0", "created", "2026-11-01", "9" * 400, "nan", ">=", "data.a/b"]
)  # fmt: skip


@given(st.lists(WORDS, max_size=30).map(" ".join) | st.lists(WORDS, max_size=30).map("".join) | st.text(max_size=50))
@example("(" * 2000)
@example("not " * 500)
@example("a" * 2001)
@example('"' + "\\" * 1999)
@example("tags.a or " * 199)
def test_a_filter_is_read_or_refused(text):
    with contextlib.suppress(InvalidFilter):
        filters.parse(text)


@given(st.lists(WORDS, max_size=30).map(" ".join) | st.text(max_size=50))
@example("(" * 2000)
@example("not " * 2000)
def test_a_condition_is_read_or_refused(text):
    with contextlib.suppress(InvalidExpression):
        expressions.evaluate(expressions.parse(text), {"metrics": [{"a": 1.0}]}, {})


@given(st.text(st.sampled_from("${} parameters.run"), max_size=40))
def test_a_text_with_references_is_read_or_refused(text):
    try:
        found = list(expressions.names_in(text))
    except InvalidExpression:
        return
    assert expressions.fill(text, {scope: {name: "v"} for scope, name in found}).count("${{") <= text.count("${{")
