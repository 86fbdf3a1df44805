"""The audit log: every write of every service leaves an entry, in the same transaction."""

from django.db import models

from accounts.models import AuditEntry
from accounts.permissions import Actor
from core.prepared import insert


def record(actor: Actor, action: str, target: models.Model, *, project_id: str = "", **facts: object) -> None:
    """Note that `actor` did `action` (such as `datasets.commit`) to `target`. `facts` hold JSON and no secrets."""
    project = project_id or getattr(target, "project_id", "") or ""
    entry = AuditEntry(
        user_id=actor.user_id,
        actor_name=actor.name[:200],
        action=action,
        target_kind=str(target._meta.verbose_name),
        target_id=str(target.pk),
        target_name=str(target)[:300],
        project_id=str(project),
        facts=facts,
    )
    entry.check_bounds()
    insert([entry])
