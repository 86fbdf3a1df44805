"""References and labels."""

import pytest

from datasets.engine.names import DatasetReference, check_label, may_be_commit, parse_reference
from datasets.errors import InvalidLabel, InvalidReference


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("team-a/xrays", ("team-a", "xrays", "latest")),
        ("team-a/xrays@main", ("team-a", "xrays", "main")),
        (" team-a/xrays@v1.0_rc-2 ", ("team-a", "xrays", "v1.0_rc-2")),
        ("a/b@0123456789ab", ("a", "b", "0123456789ab")),
    ],
)
def test_a_reference_has_three_parts(text, expected):
    assert parse_reference(text) == DatasetReference(*expected)


@pytest.mark.parametrize("text", ["", "xrays", "a/b/c", "a/b@", "A/b", "a/B", "/b", "a/", "a b/c", "../b"])
def test_anything_else_is_refused(text):
    with pytest.raises(InvalidReference):
        parse_reference(text)


@pytest.mark.parametrize("name", ["main", "v1.0", "2024-01-31", "20240131", "deadbeef", "A_b"])
def test_a_label_may_look_like_this(name):
    check_label(name)


@pytest.mark.parametrize("name", ["", "latest", "0" * 64, "-a", ".a", "a/b", "a b", "a@b", "ä", "x" * 101])
def test_a_label_may_not_look_like_this(name):
    with pytest.raises(InvalidLabel):
        check_label(name)


def test_six_digits_may_be_a_commit():
    assert [may_be_commit(text) for text in ("abcde", "abcdef", "0" * 64, "0" * 65, "ABCDEF", "main00")] == [
        False,
        True,
        True,
        False,
        False,
        False,
    ]
