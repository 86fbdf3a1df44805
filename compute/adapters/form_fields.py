"""Form fields that several kinds of resources, and templates, ask for."""

from typing import Any

from django import forms

MOST_CORES, MOST_GPUS = 100_000, 10_000
_MOST_SECRET = 100_000


class SecretField(forms.CharField):
    """A credential: it can be written and replaced, and no page shows it again, not even beside an error."""

    def __init__(self, *, rows: int = 1, **options: Any) -> None:
        """Take one line that is not shown while it is typed, or several `rows` of text."""
        attributes = {"autocomplete": "off", "spellcheck": "false"}
        # The frontend keeps nothing of what is marked so, where it keeps what was typed.
        area = {"rows": rows, "class": "form-control", "data-secret": "", **attributes}
        widget = _SecretArea(attrs=area) if rows > 1 else forms.PasswordInput(attributes)
        super().__init__(widget=widget, **{"max_length": _MOST_SECRET, **options})


class _SecretArea(forms.Textarea):
    render_value = False  # as that of a PasswordInput: a page then says that the value has to be given again

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:  # noqa: ARG002
        """Leave the value out."""
        return super().get_context(name, None, attrs)
