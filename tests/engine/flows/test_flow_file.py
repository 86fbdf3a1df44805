"""YAML is read with the meanings of version 1.2, and every refusal says where."""

import pytest

from flows.engine import flow_file
from flows.engine.problems import Finding

NOT_YAML = "This is not YAML:"
QUOTES = "A text that holds ': ' needs quotes around it."
NO_TOKEN = "found character '\\t' that cannot start any token."
ANOTHER = "but found another document."


def data_of(text):
    document = flow_file.read(text, "yaml")
    assert document.problems == []
    return document.data


def refusal_of(text):
    (problem,) = flow_file.read(text, "yaml").problems
    return problem.line, problem.column, problem.message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("on", "on"),
        ("True", True),
        ("tRue", "tRue"),
        ("", None),
        ("~", None),
        ("Null", None),
        ("'null'", "null"),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("1_000", 1000),
        ("1:30", "1:30"),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-.inf", float("-inf")),
        ("2026-11-01", "2026-11-01"),
        ("!!str 5", "5"),
        ("!!float 5", 5.0),
        ("http://a:1/b#c", "http://a:1/b#c"),
        ('"\\u0041\\/"', "A/"),
        ("|\n  a\n   b\n", "a\n b\n"),
        (">-\n  a\n  b\n", "a b"),
    ],
)
def test_a_text_means_what_it_means_in_yaml_1_2(text, value):
    assert data_of(f"a: {text}") == {"a": value}
    assert type(data_of(f"a: {text}")["a"]) is type(value)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("a: b\nc: d: e\n", (2, 5, f"{NOT_YAML} mapping values are not allowed here. {QUOTES}")),
        ("a:\n\tb: 1\n", (2, 1, f"{NOT_YAML} while scanning for the next token, {NO_TOKEN}")),
        ("a: [1, 2", (1, 9, f"{NOT_YAML} while parsing a flow sequence, did not find expected ',' or ']'.")),
        ("a: \x07b\n", (1, 4, f"{NOT_YAML} the character U+0007 is not allowed.")),
        ("a: b\nc: *d\n", (2, 4, f"{NOT_YAML} found undefined alias 'd'.")),
        ("a: &b\n  c: [*b]\n", (2, 7, "'*b' stands for what it is a part of.")),
        ("a: b\n---\nc: d\n", (2, 1, f"{NOT_YAML} expected a single document in the stream, {ANOTHER}")),
        ("%YAML 1.1\n---\na: yes\n", (1, 1, "A flow file is YAML 1.2; remove '%YAML 1.1'.")),
        ("%TAG !a! b\n" * 101 + "---\na: b\n", (101, 1, "The file has more than 100 directives '%TAG'.")),
        ("[a]: b\n", (1, 1, "A key must be plain text.")),
        ("a: {{ b }}\n", (1, 5, "A key must be plain text.")),
        ("a:\n  <<: b\n", (2, 3, "Merge keys (<<) are not supported; write the keys out.")),
        ("a: !b c\n", (1, 4, "The tag !b is not allowed in a flow file.")),
        ("a: =\n", (1, 4, "The tag tag:yaml.org,2002:value is not allowed in a flow file.")),
        ("a: !!int b\n", (1, 4, "This number cannot be read.")),
        ("a: " + "9" * 5000, (1, 4, "This number cannot be read.")),
        ("- " * 50, (1, 83, "The file is nested more than 40 deep.")),
        ("a: &b " + "[" * 30 + "]" * 30 + "\nc: " + "[" * 20 + "*b" + "]" * 20,
         (2, 24, "The file is nested more than 40 deep.")),
    ],
)  # fmt: skip
def test_what_is_refused_is_refused_at_its_place(text, refusal):
    assert refusal_of(text) == refusal


def test_an_alias_has_the_value_of_its_anchor_and_leads_to_where_that_is_written():
    document = flow_file.read("a: &b\n  c: [1, 2]\nd: [3, *b]\n", "yaml")

    assert document.data == {"a": {"c": [1, 2]}, "d": [3, {"c": [1, 2]}]}
    problem = document.locate(Finding(("d", 1, "c", 1), "code", "message"))
    assert (problem.line, problem.column, problem.path) == (2, 10, "d[1].c[1]")
    assert document.locate(Finding(("d", 1), "code", "message")).line == 3


def test_of_a_key_that_is_written_twice_the_first_counts_and_the_second_is_told():
    document = flow_file.read("a: 1\nb: 2\na: {b: 3, b: 4}\n", "yaml")

    assert document.data == {"a": 1, "b": 2}
    assert [(item.line, item.column, item.path) for item in document.problems] == [(3, 1, "a"), (3, 11, "a.b")]
