"""Projects are deleted with what becomes of their work told first, and can be restored for some days."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import transaction

from accounts import audit, permissions, project_contents, selectors
from accounts.errors import DeletedProjectNotFound
from accounts.models import Project
from accounts.permissions import Actor, require
from accounts.project_contents import MOST_ITEMS, Effect, Item
from core import clock, tasks
from core.units import count_of


@dataclass(frozen=True)
class DeletionForecast:
    """What the deletion of a project would do. `restore_days`: so long it can be restored; 0: not at all."""

    project: str
    restore_days: int
    effects: Sequence[Effect]


def require_delete(*, actor: Actor, project: Project) -> None:
    """Raise PermissionDenied (or ProjectNotFound) unless the actor may delete a project."""
    require(actor, permissions.DELETE_PROJECT, project.pk)


def foresee_deletion(*, actor: Actor, project: Project) -> DeletionForecast:
    """Return what the deletion of a project would do. Nothing changes."""
    require_delete(actor=actor, project=project)
    parts = [contents.describe(actor=actor, project=project) for contents in project_contents.registered()]
    effects = [effect for part in (*parts, _own_effects(project)) for effect in part if effect.count]
    return DeletionForecast(project.name, settings.NEARLINE.restore_days, effects)


@transaction.atomic
def delete_project(*, actor: Actor, project: Project, for_good: bool = False) -> Project:
    """Hide a project from everybody and have its work stopped. Return it as it is then.

    It can be restored until its `restore_ends_at`. Where that is None, what it has is removed soon after.
    """
    require_delete(actor=actor, project=project)
    now = clock.now()
    days = 0 if for_good else settings.NEARLINE.restore_days
    until = now + timedelta(days=days) if days else None
    rows = Project.objects.filter(pk=project.pk, deleted_at=None)
    if rows.update(deleted_at=now, deleted_by=actor.user_id, restore_ends_at=until):
        audit.record(
            actor,
            "accounts.delete_project",
            project,
            project_id=project.pk,
            restore_ends_at=until.isoformat() if until else None,
        )
        tasks.enqueue_on_commit("accounts.stop_deleted_projects")
    project.refresh_from_db()
    return project


@transaction.atomic
def restore_project(*, actor: Actor, project: Project) -> Project:
    """Bring back a deleted project. What was stopped stays so; its commits can be cached again.

    Raises DeletedProjectNotFound when its time is over, or it was restored, and for who may not restore it.
    """
    _require_restore(actor, project)
    rows = Project.objects.filter(pk=project.pk, restore_ends_at__gt=clock.now())
    if not rows.update(deleted_at=None, deleted_by=None, restore_ends_at=None):
        raise DeletedProjectNotFound(f"The project {project.name} cannot be restored any more.")
    audit.record(actor, "accounts.restore_deleted_project", project, project_id=project.pk)
    tasks.enqueue_on_commit("scheduler.cycle")
    project.refresh_from_db()
    return project


@transaction.atomic
def delete_for_good(*, actor: Actor, project: Project) -> None:
    """End the time in which a deleted project can be restored. What it has is removed soon after."""
    _require_restore(actor, project)
    if Project.objects.filter(pk=project.pk, restore_ends_at__isnull=False).update(restore_ends_at=None):
        audit.record(actor, "accounts.delete_project_for_good", project, project_id=project.pk)
        tasks.enqueue_on_commit("accounts.remove_deleted_projects")


def _own_effects(project: Project) -> list[Effect]:
    members = project.memberships.select_related("user").order_by("user__username")
    secrets = project.secrets.order_by("name").values_list("name", flat=True)
    return [
        Effect(
            "members",
            members.count(),
            f"{count_of(members.count(), 'member')}: they lose access to it.",
            items=[Item(member.user.username, member.role) for member in members[:MOST_ITEMS]],
        ),
        Effect(
            "secrets",
            len(secrets),
            f"{count_of(len(secrets), 'secret')}: no job gets them any more.",
            items=list(map(Item, secrets[:MOST_ITEMS])),
        ),
    ]


def _require_restore(actor: Actor, project: Project) -> None:
    selectors.get_deleted(actor=actor, name=project.name)
