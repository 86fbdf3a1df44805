"""Form fields for quantities as people write them, and for a host. One that is optional and left empty gives None."""

from collections.abc import Mapping
from typing import Any

from django import forms

from core import bounds, hosts, units
from core.errors import InvalidInput


class SizeField(forms.CharField):
    """A number of bytes, `most` at most: `512 GiB`, `32Gi`, `10 kB`. `fault_at_zero` refuses none at all, in words."""

    def __init__(self, *, most: int = bounds.MAX_BYTES, fault_at_zero: str = "", **options: Any) -> None:
        """Take what a size may be as text."""
        super().__init__(max_length=30, **options)
        self._most, self._fault_at_zero = most, fault_at_zero

    def prepare_value(self, value: object) -> object:
        """Return a number of bytes as people write it, where that is the same number."""
        if not isinstance(value, int):
            return value
        text = units.format_bytes(value)
        return text if units.parse_bytes(text) == value else value

    def clean(self, value: object) -> int | None:
        """Return the bytes."""
        text = super().clean(value)
        if not text:
            return None
        try:
            size_bytes = units.parse_bytes(text)
        except InvalidInput as error:
            raise forms.ValidationError(error.message) from error
        if size_bytes > self._most:
            raise forms.ValidationError(f"A size here is at most {units.format_bytes(self._most)}.")
        if size_bytes == 0 and self._fault_at_zero:
            raise forms.ValidationError(self._fault_at_zero)
        return size_bytes


class DurationField(forms.CharField):
    """Seconds: `90s`, `30m`, `2h`."""

    def clean(self, value: object) -> float | None:
        """Return the seconds."""
        text = super().clean(value)
        try:
            return units.parse_duration(text) if text else None
        except InvalidInput as error:
            raise forms.ValidationError(error.message) from error


def host_field() -> Mapping[str, forms.Field]:
    """Return the field `host`, in which an admin chooses one; none where the product runs on no more than one."""
    present = [host for host in hosts.list_hosts().values() if not host.is_away]
    if len(present) < 2:  # noqa: PLR2004 (one is no choice)
        return {}
    choices = [("", "none"), *((host.id, f"{host.name} ({host.id})") for host in present)]
    help_text = "Whose machine or folder it is. Not for what is simulated."
    return {"host": forms.ChoiceField(required=False, choices=choices, help_text=help_text)}
