"""Values that jobs ask for by name: encrypted with the site's key, readable only by the platform at a job's start."""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from django.db import models, transaction

from accounts import audit, permissions
from accounts.errors import InvalidSecretName, SecretNotFound, SecretUnreadable
from accounts.models import Project, Secret
from accounts.permissions import Actor, Role, require
from core import clock, encryption
from core.errors import InvalidInput

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
# Jobs have those of the platform whatever a secret says. By the others programs and libraries are found.
_TAKEN = re.compile(r"NEARLINE_.*|PATH|LD_.*")


def require_manage(*, actor: Actor, project: Project) -> None:
    """Raise PermissionDenied unless the actor may set the secrets of a project."""
    require(actor, permissions.MANAGE_SECRETS, project.id)


@transaction.atomic
def set_secret(*, actor: Actor, project: Project, name: str, value: str) -> Secret:
    """Store or replace a secret. Jobs get it as an environment variable, so its name must fit one.

    Raises InvalidSecretName.
    """
    require(actor, permissions.MANAGE_SECRETS, project.id)
    if not _NAME.fullmatch(name):
        raise InvalidSecretName(f"'{name}' cannot be the name of an environment variable.")
    if _TAKEN.fullmatch(name):
        raise InvalidSecretName(f"'{name}' is a variable that jobs have already.")
    if not value:
        raise InvalidInput("The value is empty.")
    if "\0" in value:
        raise InvalidInput("The value holds a NUL byte, which no environment variable can.")
    ciphertext = encryption.encrypt(value)
    secret, _ = Secret.objects.update_or_create(
        project=project, name=name, defaults={"ciphertext": ciphertext, "updated_at": clock.now()}
    )
    audit.record(actor, "accounts.set_secret", secret)
    return secret


@transaction.atomic
def delete_secret(*, actor: Actor, project: Project, name: str) -> None:
    """Forget a secret. Raises SecretNotFound."""
    require(actor, permissions.MANAGE_SECRETS, project.id)
    secret = Secret.objects.filter(project=project, name=name).first()
    if secret is None:
        raise SecretNotFound(f"{project.name} has no secret called '{name}'.")
    audit.record(actor, "accounts.delete_secret", secret)
    secret.delete()


@transaction.atomic
def set_secret_users(*, actor: Actor, project: Project, role: Role) -> Project:
    """Say which role a person needs at least to start what uses the project's secrets: member or admin."""
    require(actor, permissions.MANAGE_SECRETS, project.id)
    if role == Role.VIEWER:
        raise InvalidInput("A viewer starts nothing, so only members or admins can use secrets.")
    project.secret_users = role
    project.save(update_fields=["secret_users"])
    audit.record(actor, "accounts.set_secret_users", project, project_id=project.id, role=str(role))
    return project


def require_use(*, actor: Actor, project_id: str, names: Collection[str]) -> None:
    """Raise PermissionDenied unless no secrets are named or the actor may use those of the project."""
    if names:
        lowest = Role(Project.objects.values_list("secret_users", flat=True).get(pk=project_id))
        require(actor, replace(permissions.USE_SECRETS, level=lowest.level), project_id)


def require_present(*, project_id: str, names: Collection[str]) -> None:
    """Raise SecretNotFound naming the secrets that the project does not have."""
    if names:
        present = Secret.objects.filter(project=project_id, name__in=names).values_list("name", flat=True)
        _refuse_missing(set(names) - set(present))


def reveal_secrets(
    *, project_id: str, names: Collection[str], used_by: models.Model, on_behalf_of: str
) -> Mapping[str, str]:
    """Return the values of secrets for the start of a job, and note in the audit log which job uses which.

    Raises SecretNotFound naming the missing, and SecretUnreadable.
    """
    values = find_values(project_id=project_id, names=names) if names else {}
    _refuse_missing(set(names) - set(values))
    if values:
        user = Actor.system(f"starts a job of {on_behalf_of}")
        audit.record(user, "accounts.use_secrets", used_by, project_id=project_id, names=sorted(values))
    return values


def find_values(*, project_id: str, names: Collection[str]) -> Mapping[str, str]:
    """Return the values of those secrets that exist, for the platform alone: to mask them in what a job left.

    Raises SecretUnreadable.
    """
    rows = Secret.objects.filter(project_id=project_id, name__in=names)
    try:
        return {row.name: encryption.decrypt(bytes(row.ciphertext), f"The secret {row.name}") for row in rows}
    except encryption.CredentialsUnreadable as error:
        raise SecretUnreadable(error.message) from error


def _refuse_missing(names: Collection[str]) -> None:
    if names:
        missing = sorted(names)
        raise SecretNotFound(f"The project has no secret called {', '.join(missing)}.", missing=missing)
