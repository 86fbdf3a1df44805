"""Form fields that several kinds of resources, and templates, ask for."""

from typing import Any

from django import forms

from core import bounds, units
from core.errors import InvalidInput

MOST_CORES = 100_000


class SizeField(forms.CharField):
    """A number of bytes as people write it: `512 GiB`, `32Gi`."""

    def __init__(self, **options: Any) -> None:
        """Take what a quantity may be."""
        super().__init__(max_length=30, **options)

    def clean(self, value: str | None) -> int:
        """Return the bytes."""
        try:
            size_bytes = units.parse_bytes(super().clean(value) or "0")
        except InvalidInput as error:
            raise forms.ValidationError(error.message) from error
        if size_bytes > bounds.MAX_QUANTITY:
            raise forms.ValidationError(f"More than {units.format_bytes(bounds.MAX_QUANTITY)} is no size of a node.")
        return size_bytes
