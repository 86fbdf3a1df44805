"""Says what is wrong with what was sent: in one line, for pages that show no form again, or at which field."""

from django import forms

from accounts.errors import InvalidName
from core.errors import Conflict, PlatformError


def explain_errors(*sent: forms.Form) -> str:
    """Return the errors of all fields, each after its label."""
    return "; ".join(
        f"{form[field].label}: {' '.join(map(str, errors))}" for form in sent for field, errors in form.errors.items()
    )


def field_of(error: PlatformError) -> str:
    """Return the name of the field that a service refused; empty: it does not tell."""
    return str(error.details.get("field", "name" if isinstance(error, InvalidName | Conflict) else ""))
