"""Quantities in forms: read as people write them, refused in words."""

import pytest
from django import forms

from core.form_fields import DurationField, SizeField


@pytest.mark.parametrize(
    ("field", "text", "read"),
    [
        (SizeField(), "512 MiB", 2**29),
        (SizeField(), "0", 0),
        (SizeField(most=10_000), "10 kB", 10_000),
        (SizeField(required=False), "", None),
        (SizeField(required=False, fault_at_zero="Nothing fits."), " ", None),
        (DurationField(), "30m", 1800),
        (DurationField(required=False), "", None),
    ],
)
def test_a_quantity_is_read(field, text, read):
    assert field.clean(text) == read


@pytest.mark.parametrize(
    ("field", "text", "fault"),
    [
        (SizeField(), "", "This field is required."),
        (SizeField(), "much", "'much' is not a size. Write it like 512Mi, 4GB or 1000000."),
        (SizeField(most=10_000), "11 kB", "A size here is at most 10.0 kB."),
        (SizeField(), "2000 PB", f"'2000 PB' is more than {2**60} bytes."),
        (SizeField(fault_at_zero="Nothing fits."), "0 B", "Nothing fits."),
        (SizeField(), "1" * 31, "Ensure this value has at most 30 characters (it has 31)."),
    ],
)
def test_a_fault_is_told(field, text, fault):
    with pytest.raises(forms.ValidationError) as told:
        field.clean(text)
    assert told.value.messages == [fault]
