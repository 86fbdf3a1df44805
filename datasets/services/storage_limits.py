"""Limits on what a project stores, set by site admins; `packs` holds them."""

from django.db import transaction

from accounts import audit
from accounts.models import Project
from accounts.permissions import Actor, require_site_admin
from core.bounds import MAX_BYTES
from core.errors import InvalidInput
from datasets.models import StorageLimit


def require_limit(*, actor: Actor) -> None:
    """Raise PermissionDenied unless the actor may limit what projects store."""
    require_site_admin(actor, "limit what projects store")


@transaction.atomic
def set_limit(*, actor: Actor, project: Project, limit_bytes: int | None) -> None:
    """Limit what a project stores; None lifts the limit. What is stored already stays, also where it is more."""
    require_limit(actor=actor)
    if limit_bytes is None:
        StorageLimit.objects.filter(project=project).delete()
    elif not 0 <= limit_bytes <= MAX_BYTES:
        raise InvalidInput(f"A limit is between 0 and {MAX_BYTES} bytes.")
    else:
        StorageLimit.objects.update_or_create(project=project, defaults={"limit_bytes": limit_bytes})
    audit.record(actor, "datasets.set_storage_limit", project, project_id=project.pk, limit_bytes=limit_bytes)
