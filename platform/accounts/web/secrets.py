"""The secrets of a project: set and deleted by its admins, and never shown."""

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.views.decorators.http import require_POST

from accounts import selectors
from accounts.permissions import Role
from accounts.services import secrets
from accounts.web.requests import PageRequest, to_members
from core.errors import InvalidInput


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


@require_POST
def set_secret(request: PageRequest, name: str) -> HttpResponse:
    """Store a secret, or replace its value."""
    form = SecretForm(request.POST)
    project = selectors.get_project(actor=request.actor, name=name)
    if form.is_valid():
        try:
            secret = secrets.set_secret(actor=request.actor, project=project, **form.cleaned_data)
        except InvalidInput as error:
            messages.error(request, f"{error.message} {error.hint}")
            return to_members(request, name)
        messages.success(request, f"Jobs of {name} that name {secret.name} get its new value from their next start on.")
    else:
        messages.error(request, "Write the name of a variable and a value.")
    return to_members(request, name)


@require_POST
def delete_secret(request: PageRequest, name: str, secret: str) -> HttpResponse:
    """Forget a secret."""
    project = selectors.get_project(actor=request.actor, name=name)
    secrets.delete_secret(actor=request.actor, project=project, name=secret)
    messages.success(request, f"{secret} is deleted.")
    return to_members(request, name)


@require_POST
def set_secret_users(request: PageRequest, name: str) -> HttpResponse:
    """Choose who may start what uses the project's secrets."""
    form = SecretUsersForm(request.POST)
    project = selectors.get_project(actor=request.actor, name=name)
    if form.is_valid():
        role = Role(form.cleaned_data["secret_users"])
        secrets.set_secret_users(actor=request.actor, project=project, role=role)
        who = "Members and admins" if role == Role.MEMBER else "Only admins"
        messages.success(request, f"{who} may start what uses the secrets of {name}.")
    return to_members(request, name)
