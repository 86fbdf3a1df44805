"""The secrets of a project: set and deleted by its admins, and never shown."""

from django.contrib import messages
from django.http import HttpResponse
from django.views.decorators.http import require_POST

from accounts import selectors
from accounts.errors import InvalidSecretName
from accounts.permissions import Role
from accounts.services import secrets
from accounts.web import members
from accounts.web.members import SecretForm, SecretUsersForm
from accounts.web.requests import PageRequest, to_members
from core.errors import InvalidInput


@require_POST
def set_secret(request: PageRequest, name: str) -> HttpResponse:
    """Store a secret, or replace its value."""
    project = selectors.get_project(actor=request.actor, name=name)
    secrets.require_manage(actor=request.actor, project=project)
    form = SecretForm(request.POST, auto_id="secret-%s")
    if form.is_valid():
        try:
            secret = secrets.set_secret(actor=request.actor, project=project, **form.cleaned_data)
        except InvalidInput as error:
            field = "name" if isinstance(error, InvalidSecretName) else "value"
            form.add_error(field, f"{error.message} {error.hint}".strip())
        else:
            messages.success(
                request, f"Jobs of {name} that name {secret.name} get its new value from their next start on."
            )
            return to_members(request, name)
    return members.show_page(request, of=name, secret_form=form)


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
