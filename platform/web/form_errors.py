"""Says in one line what is wrong with what was sent, for pages that show no form again."""

from django import forms


def explain_errors(*sent: forms.Form) -> str:
    """Return the errors of all fields, each after its label."""
    return "; ".join(
        f"{form[field].label}: {' '.join(map(str, errors))}" for form in sent for field, errors in form.errors.items()
    )
