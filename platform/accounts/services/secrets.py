"""Values that jobs ask for by name: encrypted with the site's key, readable only by the platform at a job's start."""

import re
from collections.abc import Collection, Mapping

from cryptography.fernet import Fernet
from django.conf import settings
from django.db import transaction

from accounts import audit, permissions
from accounts.actor import Actor
from accounts.errors import InvalidSecretName, SecretNotFound
from accounts.models import Project, Secret
from accounts.permissions import require
from core import clock

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


@transaction.atomic
def set_secret(*, actor: Actor, project: Project, name: str, value: str) -> Secret:
    """Store or replace a secret. Jobs get it as an environment variable, so its name must fit one.

    Raises InvalidSecretName.
    """
    require(actor, permissions.MANAGE_SECRETS, project.id)
    if not _NAME.fullmatch(name):
        raise InvalidSecretName(f"'{name}' cannot be the name of an environment variable.")
    ciphertext = _cipher().encrypt(value.encode())
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


def reveal_secrets(*, project_id: str, names: Collection[str]) -> Mapping[str, str]:
    """Return the values of secrets, for the start of a job only. Raises SecretNotFound naming the missing."""
    rows = {row.name: bytes(row.ciphertext) for row in Secret.objects.filter(project_id=project_id, name__in=names)}
    missing = sorted(set(names) - set(rows))
    if missing:
        raise SecretNotFound(f"The project has no secret called {', '.join(missing)}.", missing=missing)
    cipher = _cipher()
    return {name: cipher.decrypt(rows[name]).decode() for name in names}


def _cipher() -> Fernet:
    return Fernet(settings.NEARLINE.secrets_key)
