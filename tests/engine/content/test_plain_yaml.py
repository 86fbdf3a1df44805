"""YAML of other programs: what it holds is read, and what would take too long is refused."""

from itertools import pairwise

import pytest

from nearline.content.plain_yaml import UnreadableYaml, read_yaml


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


@pytest.mark.parametrize(
    "digits", ["12345678901234567890123456789012", "01234567", "1e101234", "1.5", "1_000", "0x1f", "0o17", "-1", ".inf"]
)
def test_a_number_is_the_text_that_stands_there(digits):
    assert read_yaml(f"md5: {digits}\n") == {"md5": digits}


BOMB = "".join(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in pairwise("abcdefgh"))


@pytest.mark.parametrize(
    "text",
    [
        b"a: \xff",
        "a: [",
        "a: b: c",
        "a: *nothing",
        "a: &a [*a]",
        "? [a]\n: b",
        "{a: 1, a: 2}",
        "[" * 42 + "]" * 42,
        "a: &a [1]\n" + BOMB,
    ],
    ids=[
        "no text",
        "open",
        "nested colons",
        "unknown alias",
        "alias of itself",
        "list as key",
        "key twice",
        "deep",
        "bomb",
    ],
)
def test_what_is_no_yaml_or_too_much_of_it_is_refused(text):
    with pytest.raises(UnreadableYaml):
        read_yaml(text)
