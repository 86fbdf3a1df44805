"""What a user writes is stored, or refused with its reason; nothing in between."""

import json
import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from core import bounds
from core.bounds import OutOfBounds
from core.errors import InvalidInput


@pytest.mark.parametrize("text", ["", "plain", "Grüße 🚀", "line\nline", "a" * 1000, "\x7f"])
def test_a_text_of_whole_characters_is_taken(text):
    assert bounds.text_fault(text) == ""


@pytest.mark.parametrize(("text", "word"), [("a\0b", "NUL"), ("\ud800", "surrogate"), ("x\udfffy", "surrogate")])
def test_a_text_that_no_store_takes_is_refused(text, word):
    assert word in bounds.text_fault(text)


@pytest.mark.parametrize("number", [0, -1, 2**63 - 1, -(2**63) + 1, 1.5, -1e308, True])
def test_a_number_that_a_column_holds_is_taken(number):
    assert bounds.number_fault(number) == ""


@pytest.mark.parametrize(
    "number", [2**63, -(2**63), pytest.param(10**5000, id="5000 digits"), math.inf, -math.inf, math.nan]
)
def test_a_number_that_no_column_holds_is_refused(number):
    assert bounds.number_fault(number) != ""


@pytest.mark.parametrize("moment", [datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)])
def test_the_first_and_the_last_moment_are_taken(moment):
    assert bounds.moment_fault(moment) == ""


@pytest.mark.parametrize(
    "moment",
    [
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=23, minutes=59))),
        datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(-timedelta(hours=1))),
        datetime(2026, 1, 1),  # noqa: DTZ001 (a moment without an offset is what is refused)
    ],
)
def test_a_moment_that_no_calendar_has_is_refused(moment):
    assert bounds.moment_fault(moment) != ""


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (bounds.Line, "a" * 500, "a" * 501),
        (bounds.Name, "Grüße 🚀", "a\nb"),
        (bounds.Name, "a b", "a\x1b[2Jb"),
        (bounds.Name, "a", "a\u2028b"),
        (bounds.Text, "a", "a\0"),
        (bounds.Text, "a", "\ud800"),
        (bounds.Whole, 2**63 - 1, 2**63),
        (bounds.Count, 2**31 - 2, 2**31 - 1),
        (bounds.Offset, 10**18, 10**22),
        (bounds.Quantity, 0, -1),
        (bounds.Bytes, 2**60, 2**60 + 1),
        (bounds.Finite, 1e300, math.inf),
        (bounds.Seconds, 3_162_240_000.0, math.inf),
        (bounds.Seconds, 0.0, math.nan),
        (bounds.Days, 10_000.0, 10_001.0),
        (bounds.Price, Decimal("999999.9999"), Decimal(1000000)),
        (bounds.Price, Decimal("0.0001"), "1e50"),
        (bounds.Price, Decimal(0), "NaN"),
        (bounds.Moment, datetime(2026, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00+23:59"),
        (bounds.Moment, datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00"),
    ],
)
def test_the_types_of_fields_take_what_is_within_the_bounds_and_no_more(kind, good, bad):
    field = TypeAdapter(kind)

    assert field.validate_python(good) == good
    with pytest.raises(ValidationError):
        field.validate_python(bad)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "\\ud800"}',
        '{"\\udfff": 1}',
        '["\\u0000"]',
        "[1e999]",
        "[NaN]",
        "[-Infinity]",
        f"[{'9' * 5000}]",
        f"[-{2**63}]",
        "[" * 66 + "]" * 66,
        "[" * 100_000,
        "[" + "1," * 500_000 + "1]",
    ],
)
def test_json_with_a_value_that_cannot_be_stored_is_refused(text):
    with pytest.raises(OutOfBounds):
        bounds.read_json(text)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe\xfa", b"nothing", b'{"a": 1} b'])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(InvalidInput, match="This is not JSON"):
        bounds.read_json(text)


def test_the_refusal_says_where_the_value_stands():
    with pytest.raises(OutOfBounds) as refusal:
        bounds.read_json('{"steps": [{"title": "fine"}, {"title": "\\ud800"}]}')

    assert refusal.value.details == {"where": "steps.1.title"}


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec=None)), inner, max_size=4),
)


@given(_values)
def test_json_is_either_refused_or_comes_back_as_it_was_and_can_be_stored(value):
    try:
        found = bounds.read_json(json.dumps(value))
    except InvalidInput:
        return

    assert found == value
    assert json.loads(json.dumps(found, ensure_ascii=False, allow_nan=False).encode()) == value
