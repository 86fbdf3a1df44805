"""Form fields that pages of several apps ask for."""

from django import forms

from core import units
from core.errors import InvalidInput


class OptionalSizeField(forms.CharField):
    """A number of bytes as people write it: `512 GiB`, `10 kB`. Empty: None."""

    def __init__(self, **options: object) -> None:
        """Take what a size may be as text."""
        super().__init__(max_length=30, required=False, **options)  # type: ignore[arg-type]

    def clean(self, value: object) -> int | None:
        """Return the bytes."""
        said = super().clean(value)
        try:
            return units.parse_bytes(said) if said else None
        except InvalidInput as error:
            raise forms.ValidationError(error.message) from error
