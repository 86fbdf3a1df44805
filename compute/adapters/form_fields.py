"""Form fields that several kinds of resources, and templates, ask for."""

from typing import Any

from django import forms

from core import bounds, units
from core.errors import InvalidInput

MOST_CORES, MOST_GPUS = 100_000, 10_000
_MOST_SECRET = 100_000


class SecretField(forms.CharField):
    """A credential: it can be written and replaced, and no page shows it again, not even beside an error."""

    def __init__(self, *, rows: int = 1, **options: Any) -> None:
        """Take one line that is not shown while it is typed, or several `rows` of text."""
        attributes = {"autocomplete": "off", "spellcheck": "false"}
        widget = _SecretArea(attrs={"rows": rows, **attributes}) if rows > 1 else forms.PasswordInput(attributes)
        super().__init__(widget=widget, **{"max_length": _MOST_SECRET, **options})


class _SecretArea(forms.Textarea):
    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:  # noqa: ARG002
        """Leave the value out."""
        return super().get_context(name, None, attrs)


class DurationField(forms.CharField):
    """Seconds as people write them: `90s`, `30m`, `2h`. Empty: None."""

    def clean(self, value: str | None) -> float | None:
        """Return the seconds."""
        text = super().clean(value)
        try:
            return units.parse_duration(text) if text else None
        except InvalidInput as error:
            raise forms.ValidationError(error.message) from error


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
