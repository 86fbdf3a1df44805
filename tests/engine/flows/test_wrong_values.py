"""Whatever stands at a key of a flow file: it is taken, or refused at its line by a problem that names the key."""

from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from flows.engine import checks, spec

CODES = {
    *("unreadable", "wrong_type", "wrong_value", "missing_key", "unknown_key", "too_long", "too_many"),
    *("bad_condition", "bad_reference", "unknown_parent"),
}
VALUES = {
    "null": "null",
    "true": "true",
    "a number": "3",
    "a negative number": "-1",
    "a number of 64 bits": str(2**62),
    "a number of more than 64 bits": "9" * 30,
    "a part of a number": "1.5",
    "no number": ".nan",
    "an infinite number": ".inf",
    "a list": "[1]",
    "a list of lists": "[[a]]",
    "a list of nothing": "[null]",
    "an empty list": "[]",
    "a mapping": "{a: 1}",
    "an empty mapping": "{}",
    "an empty text": '""',
    "a text": "zz !",
    "a long text": "y" * 120_000,
    "a text with quotes": '"' + "y'" * 1000 + '"',
    "a text with NUL": '"a\\0b"',
    "a text of two lines": '"a\\nb"',
    "a text that steers terminals": '"a\\e[31mb"',
}
FLOW = "flow: f\nsteps: [{name: s, command: c}]\n"
STEP = "flow: f\nsteps:\n- name: s\n  command: c\n  "
PARTS: dict[str, tuple[type[BaseModel], str, str]] = {
    "the flow": (spec.FlowSpec, FLOW, ""),
    "a step": (spec.StepSpec, STEP, ""),
    "a parameter": (spec.ParameterSpec, f"{FLOW}parameters:\n  p: {{", "}"),
    "data": (spec.DataInput, f"{STEP}data: [{{", "}]"),
    "compute": (spec.TemplateChoice, f"{STEP}compute: [{{", "}]"),
    "retries": (spec.Retries, f"{STEP}retries: {{", "}"),
    "a range": (spec.GridRange, f"{STEP}grid: {{a: {{", "}}"),
    "topology": (spec.Topology, f"{STEP}topology: {{", "}"),
    "launcher": (spec.LauncherSpec, f"{STEP}launcher: {{", "}"),
}
KEYS = [(part, key) for part, (model, _, _) in PARTS.items() for key in model.model_fields]


def file_with(part: str, key: str, value: str) -> tuple[str, int]:
    """Return a flow file with a value at a key, and the line of it."""
    _, before, after = PARTS[part]
    for word in ("flow: f", "steps: [{name: s, command: c}]") if part == "the flow" else ():
        before = before.replace(f"{word}\n", "") if word.startswith(f"{key}:") else before
    if part == "a step" and key in {"name", "command"}:
        before = before.replace({"name": "name: s\n  ", "command": "command: c\n  "}[key], "")
    return f"{before}{key}: {value}{after}\n", before.count("\n") + 1


def faults_of(part: str, key: str, value: str) -> Iterator[str]:
    text, line = file_with(part, key, value)
    found = checks.check(text, "yaml")
    if found.spec is None and not found.problems:
        yield "refused without a word"
    for problem in found.problems:
        is_named = f"'{key}'" in problem.message or key in problem.path
        is_missing = problem.code == "missing_key" and key not in problem.path
        if not (is_named and problem.line == line) and not is_missing:
            yield f"at line {problem.line}, not {line}: [{problem.path}] {problem.message}"
        if problem.code not in CODES:
            yield f"the code {problem.code}"
        if len(problem.message) > 1001 or len(problem.path) > 1001:
            yield f"{len(problem.message)} characters"


@pytest.mark.parametrize(("part", "key"), KEYS)
def test_a_wrong_value_is_told_by_its_key_at_its_line(part, key):
    faults = {name: list(faults_of(part, key, value)) for name, value in VALUES.items()}

    assert {name: told for name, told in faults.items() if told} == {}


@pytest.mark.parametrize(
    ("part", "key"),
    [
        *[("a step", key) for key in ("gpus", "cpu", "memory", "replicas", "completions", "timeout", "grace_period")],
        *[("retries", "timeout"), ("a range", "max"), ("launcher", "cpu"), ("compute", "wait")],
    ],
)
def test_true_is_no_number(part, key):
    text, line = file_with(part, key, "true")

    told = [(problem.line, problem.message) for problem in checks.check(text, "yaml").problems]

    assert (line, f"'{key}' must be a number.") in told


def test_a_long_key_is_not_told_with_each_of_its_faults():
    text = f"{STEP}parameters:\n    {'k' * 100_000}: {{" + ", ".join(f"a{n}: [1]" for n in range(1000)) + "}\n"

    assert sum(len(each.path) + len(each.message) for each in checks.check(text, "yaml").problems) < 1_000_000
