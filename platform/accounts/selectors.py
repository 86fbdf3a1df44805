"""Reads about people and projects, limited to what the actor may see."""

import hashlib
from collections.abc import Collection

from django.db.models import Count, Q, QuerySet

from accounts import permissions
from accounts.errors import (
    DeletedProjectNotFound,
    ProjectDeleted,
    ProjectNotFound,
    SecretNotFound,
    UserNotFound,
)
from accounts.models import ApiToken, AuditEntry, Membership, Project, Secret, User
from accounts.permissions import Actor, Role, require


def actor_of(user: User) -> Actor:
    """Return the actor that a signed-in person is."""
    roles = Membership.objects.filter(user=user, project__deleted_at=None).values_list("project_id", "role")
    levels = {project_id: Role(role).level for project_id, role in roles}
    hidden: frozenset[str] = frozenset()
    if user.is_superuser:
        hidden = frozenset(_hidden_projects().values_list("pk", flat=True))
    if hidden:
        present = Project.objects.filter(deleted_at=None).values_list("pk", flat=True)
        levels = dict.fromkeys(present, permissions.Level.ADMIN)
    return Actor(
        user_id=user.pk,
        name=user.username,
        is_site_admin=user.is_superuser,
        levels=levels,
        hidden_project_ids=hidden,
    )


def find_actor(user_id: int) -> Actor | None:
    """Return the actor that a person is, with the levels of now; None where there is no active one."""
    user = User.objects.filter(pk=user_id, is_active=True).first()
    return None if user is None else actor_of(user)


def mark_of_sessions(user_id: int | None) -> str:
    """Return what is another text once the sessions of a person ended, by a new password too; empty for no person."""
    user = None if user_id is None else User.objects.filter(pk=user_id).first()
    return "" if user is None else hashlib.sha256(user.get_session_auth_hash().encode()).hexdigest()[:20]


def is_site_admin(name: str) -> bool:
    """Whether the actor of that name is a site admin, or the platform itself."""
    is_platform = name.startswith(Actor.system("").name)  # no person can be called so
    return is_platform or User.objects.filter(username=name, is_superuser=True, is_active=True).exists()


def list_projects(*, actor: Actor, part: str = "") -> QuerySet[Project]:
    """Return the projects that the actor is a member of, all of them to a site admin; `part` is in their names."""
    projects = Project.objects.filter(deleted_at=None).order_by("name")
    if part:
        projects = projects.filter(name__icontains=part)
    return projects if actor.sees_everything else projects.filter(pk__in=actor.project_ids)


def list_joined(*, actor: Actor) -> QuerySet[Project]:
    """Return the projects that the actor is a member of, also where a site admin sees more."""
    return list_projects(actor=actor).filter(memberships__user=actor.user_id)


def get_project(*, actor: Actor, name: str) -> Project:
    """Return a project by name.

    Raises ProjectNotFound, also to those who are not members, and ProjectDeleted to those who may restore it.
    """
    project = list_projects(actor=actor).filter(name=name).first()
    if project is not None:
        return project
    if (deleted := find_deleted(actor=actor, name=name)) is not None:
        raise ProjectDeleted(f"The project '{name}' is deleted. {describe_restore_time(deleted)}")
    raise ProjectNotFound(f"There is no project called '{name}', or you are not a member of it.")


def list_deleted(*, actor: Actor) -> QuerySet[Project]:
    """Return the deleted projects that the actor may restore, or might have, by name, until all of each is removed."""
    projects = _hidden_projects().select_related("deleted_by").order_by("name")
    if actor.is_site_admin:
        return projects
    return projects.filter(memberships__user=actor.user_id or 0, memberships__role=Role.ADMIN)


def find_deleted(*, actor: Actor, name: str) -> Project | None:
    """Return a deleted project that the actor may restore, or might have; None where there is none."""
    return list_deleted(actor=actor).filter(name=name).first()


def get_deleted(*, actor: Actor, name: str) -> Project:
    """Return a deleted project that the actor may restore, or might have. Raises DeletedProjectNotFound."""
    project = find_deleted(actor=actor, name=name)
    if project is None:
        raise DeletedProjectNotFound(f"There is no deleted project called '{name}' that you may restore.")
    return project


def describe_restore_time(project: Project) -> str:
    """Return until when a deleted project can be restored, and what its removal waits for, in words."""
    if project.restore_ends_at is not None:
        return f"It can be restored until {project.restore_ends_at:%Y-%m-%d %H:%M} UTC."
    return f"It cannot be restored any more. {project.waits_for}".rstrip()


def _hidden_projects() -> QuerySet[Project]:
    return Project.objects.filter(deleted_at__isnull=False, removed_at=None)


def list_members(*, actor: Actor, project: Project, person: str = "") -> QuerySet[Membership]:
    """Return the members of a project by name; `person` is a part of it."""
    require(actor, permissions.VIEW_PROJECT, project.id)
    members = Membership.objects.filter(project=project).select_related("user").order_by("user__username")
    return members.filter(user__username__icontains=person) if person else members


def get_member(*, actor: Actor, project: Project, username: str) -> Membership:
    """Return one member of a project. Raises UserNotFound."""
    member = list_members(actor=actor, project=project).filter(user__username=username).first()
    if member is None:
        raise UserNotFound(f"'{username}' is not a member of {project.name}.")
    return member


def list_tokens(*, actor: Actor) -> QuerySet[ApiToken]:
    """Return the actor's own tokens that are not revoked, newest first."""
    return ApiToken.objects.filter(user_id=actor.user_id or 0, revoked_at=None).order_by("-pk")


def list_secrets(*, actor: Actor, project: Project) -> QuerySet[Secret]:
    """Return the names of a project's secrets; the values are never shown."""
    require(actor, permissions.MANAGE_SECRETS, project.id)
    return Secret.objects.filter(project=project).defer("ciphertext").order_by("name")


def get_secret(*, actor: Actor, project: Project, name: str) -> Secret:
    """Return a project's secret without its value. Raises SecretNotFound."""
    secret = list_secrets(actor=actor, project=project).filter(name=name).first()
    if secret is None:
        raise SecretNotFound(f"{project.name} has no secret called '{name}'.")
    return secret


def list_audit_entries(
    *, actor: Actor, project: Project | None = None, area: str = "", person: str = ""
) -> QuerySet[AuditEntry]:
    """Return who did what, newest first: in one project, or wherever the actor is an admin.

    A site admin also sees what belongs to no project. `area` is the part of an action before its dot; `person` a part
    of who did it.
    """
    entries = AuditEntry.objects.order_by("-pk")
    if project is not None:
        require(actor, permissions.VIEW_AUDIT_LOG, project.id)
        entries = entries.filter(project_id=project.id)
    elif not actor.is_site_admin:
        own = [project_id for project_id, level in actor.levels.items() if level >= permissions.VIEW_AUDIT_LOG.level]
        entries = entries.filter(project_id__in=own)
    if area:
        entries = entries.filter(action__startswith=f"{area}.")
    return entries.filter(actor_name__icontains=person) if person else entries


def list_platform_entries(targets: Collection[str]) -> QuerySet[AuditEntry]:
    """Return what was done to these things, which belong to no project, newest first. For the platform itself."""
    return AuditEntry.objects.filter(project_id="", target_id__in=targets).order_by("-pk")


def list_people(*, actor: Actor, person: str = "") -> QuerySet[User]:
    """Return everybody by name, with the number of their projects (`project_count`). For site admins.

    `person` is a part of a name.
    """
    permissions.require_site_admin(actor, "list people")
    joined = Count("memberships", filter=Q(memberships__project__deleted_at=None))
    people = User.objects.annotate(project_count=joined).order_by("username")
    return people.filter(username__icontains=person) if person else people


def get_person(*, actor: Actor, username: str) -> User:
    """Return a person; oneself, or for site admins anybody. Raises UserNotFound."""
    people = User.objects.all() if actor.is_site_admin else User.objects.filter(pk=actor.user_id or 0)
    person = people.filter(username=username).first()
    if person is None:
        raise UserNotFound(f"There is nobody called '{username}'.")
    return person
