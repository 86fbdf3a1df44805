"""Quantities as people type them: what cannot be read is refused in the words of who typed it."""

import pytest

from nearline.cli.quantities import read_bytes, read_count, read_milli, read_or_none, read_seconds
from nearline.errors import InvalidRequest


def test_quantities_are_read_into_the_units_of_the_api():
    assert (read_milli("0.5"), read_bytes("1.5 TB"), read_seconds("2m")) == (500, 1_500_000_000_000, 120.0)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_milli, "1e30"),
        (read_milli, "-1e30"),
        (read_bytes, f"{10**19}T"),
        (read_count, "9" * 5000),  # Python makes no int of so many digits
        (read_seconds, "9" * 400),
    ],
)
def test_what_no_whole_number_of_the_api_holds_is_too_large(read, text):
    with pytest.raises(InvalidRequest, match=f"^'{text}' is too large.$"):
        read(text)


@pytest.mark.parametrize("text", ["two", "inf"])
def test_that_a_setting_may_be_none_is_told_only_where_it_may(text):
    with pytest.raises(InvalidRequest) as plain:
        read_milli(text)
    with pytest.raises(InvalidRequest) as setting:
        read_or_none(read_milli, text)

    assert plain.value.hint == "Write a number, as 2 or 0.5."
    assert setting.value.hint == "Write a number, as 2 or 0.5, or none."
    assert read_or_none(read_milli, "none") is None
