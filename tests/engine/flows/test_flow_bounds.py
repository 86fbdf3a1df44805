"""What a flow file may not hold is told with its line, whatever the reader; nothing of it is an error of ours."""

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.engine import checks

FLOW = """flow: digits
title: {title}
steps:
  - name: train
    command: "true"
    timeout: {timeout}
    parameters: {{seed: {seed}}}
"""


def check(title='"fine"', timeout="1h", seed="1"):
    return checks.check(FLOW.format(title=title, timeout=timeout, seed=seed), "yaml")


def test_a_flow_within_the_bounds_is_taken():
    assert check().problems == ()


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"title": '"\\ud800"'}, 2),
        ({"title": '"a\\0b"'}, 2),
        ({"timeout": "Infinity"}, 6),
        ({"timeout": ".inf"}, 6),
        ({"timeout": "9" * 30}, 6),
        ({"timeout": "40000d"}, 6),
        ({"seed": "0x" + "f" * 4000}, 7),
        ({"seed": str(2**63)}, 7),
        ({"seed": ".nan"}, 7),
    ],
)
def test_a_value_beyond_the_bounds_is_a_problem_with_its_line(fields, line):
    found = check(**fields)

    assert found.spec is None
    assert [problem.line for problem in found.problems] == [line]


@pytest.mark.parametrize("value", ["9" * 5000, "1e999", "NaN", '"\\ud800"', '"\\u0000"', "[" * 5000 + "]" * 5000])
def test_a_value_beyond_the_bounds_is_a_problem_in_json_too(value):
    text = f'{{"flow": "digits", "title": {value}, "steps": [{{"name": "a", "command": "true"}}]}}'

    found = checks.check(text, "json")

    assert found.spec is None
    assert found.problems


_leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=20)
_values = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)
_keys = (
    "name",
    "command",
    "after",
    "when",
    "grid",
    "env",
    "data",
    "compute",
    "retries",
    "timeout",
    "outputs",
    "secrets",
)
_steps = st.lists(st.dictionaries(st.sampled_from(_keys), _values, max_size=5), max_size=3)


@settings(max_examples=150, derandomize=True)
@given(st.dictionaries(st.sampled_from(["flow", "title", "parameters", "description"]), _values), _steps)
def test_any_flow_is_read_or_its_problems_are_told(head, steps):
    text = json.dumps({"flow": "digits", **head, "steps": steps})

    found = checks.check(text, "json")

    assert found.spec is not None or found.problems


@settings(max_examples=150, derandomize=True)
@given(st.text(st.characters(codec=None)) | st.text("{}[]:-&*!|>%@`\"'# \nabc0", max_size=60))
def test_any_text_is_a_flow_or_its_problems_are_told(text):
    for file_format in ("yaml", "json"):
        with contextlib.suppress(UnicodeEncodeError):  # such a text cannot reach us: no request holds half a character
            text.encode()
            assert checks.check(text, file_format).problems
