"""The field of a form in which an admin chooses a host, where the product runs on several."""

from collections.abc import Mapping

from django import forms

from core import hosts


def host_field() -> Mapping[str, forms.Field]:
    """Return the field `host`; none where there is no choice."""
    present = [host for host in hosts.list_hosts().values() if not host.is_away]
    if len(present) < 2:  # noqa: PLR2004 (one is no choice)
        return {}
    choices = [("", "none"), *((host.id, f"{host.name} ({host.id})") for host in present)]
    help_text = "Whose machine or folder it is. Not for what is simulated."
    return {"host": forms.ChoiceField(required=False, choices=choices, help_text=help_text)}
