"""YAML of other programs: what it holds is read, and what would take too long is refused."""

from itertools import pairwise

import pytest

from datasets.engine.plain_yaml import UnreadableYaml, read_yaml


def test_mappings_lists_and_texts_are_read_and_of_plain_texts_only_truth_and_nothing_mean_more():
    text = "a: {on: true, 'c': 'true', 010: 1e3, d: ~, e: }\nlist:\n- yes\n- {}\n"

    assert read_yaml(text) == {
        "a": {"on": True, "c": "true", "010": "1e3", "d": None, "e": None},
        "list": ["yes", {}],
    }
    assert read_yaml("# nothing\n") is None


def test_aliases_and_merge_keys_stand_for_what_is_before_them():
    text = "a: &a {x: 1, y: 2}\nb: &b {y: 3}\none: {<<: *a, y: 4}\nboth: {<<: [*b, *a], z: *b}\n"

    document = read_yaml(text)

    assert document["one"] == {"x": "1", "y": "4"}
    assert document["both"] == {"y": "3", "x": "1", "z": {"y": "3"}}


BOMB = "".join(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in pairwise("abcdefgh"))


@pytest.mark.parametrize(
    "text",
    ["a: [", "a: b: c", "a: *nothing", "a: &a [*a]", "? [a]\n: b", "[" * 42 + "]" * 42, "a: &a [1]\n" + BOMB],
    ids=["open", "nested colons", "unknown alias", "alias of itself", "list as key", "deep", "bomb"],
)
def test_what_is_no_yaml_or_too_much_of_it_is_refused(text):
    with pytest.raises(UnreadableYaml):
        read_yaml(text)
