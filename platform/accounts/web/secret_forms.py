"""The forms for the secrets of a project."""

from django import forms

from accounts.permissions import Role


class SecretForm(forms.Form):
    """A secret, new or with another value."""

    name = forms.CharField(max_length=100, label="Name", help_text="Of the environment variable, as HF_TOKEN.")
    value = forms.CharField(
        max_length=65536,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        label="Value",
        help_text="Of several lines: nearline secret set NAME < FILE",
    )


class SecretUsersForm(forms.Form):
    """Who may use the secrets."""

    secret_users = forms.ChoiceField(
        label="May start what uses them",
        choices=[(Role.MEMBER.value, "members and admins"), (Role.ADMIN.value, "admins only")],
    )
