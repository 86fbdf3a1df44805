"""Projects and who is in them."""

import re

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction

from accounts import audit, permissions, signals
from accounts.errors import InvalidName, LastAdmin, PersonExists, ProjectExists, UserNotFound, WeakPassword
from accounts.models import Membership, Project, User
from accounts.permissions import Actor, Role, require, require_site_admin

NAME_PATTERN = r"[a-z][a-z0-9\-]{0,62}"
"""Names of projects, datasets, flows and their like, as Python and browsers read it."""


def check_name(name: str) -> None:
    """Raise InvalidName unless `name` may name a project, a dataset or a flow."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise InvalidName(f"'{name}' cannot be a name.")


def may_create_projects(actor: Actor) -> bool:
    """Whether the settings let the actor create projects."""
    return actor.is_site_admin or settings.NEARLINE.project_creators == "everyone"


@transaction.atomic
def create_project(*, actor: Actor, name: str, description: str = "") -> Project:
    """Create a project whose first admin is the actor: a site admin, or anybody where the settings say so.

    Raises InvalidName and ProjectExists.
    """
    if not may_create_projects(actor):
        require_site_admin(actor, "create projects")
    check_name(name)
    if (other := Project.objects.filter(name=name).first()) is not None:
        keeps = "There is a project" if other.deleted_at is None else "A deleted project that is not yet removed is"
        raise ProjectExists(f"{keeps} called '{name}' already.")
    project = Project.objects.create(name=name, description=description)
    if actor.user_id is not None:
        Membership.objects.create(project=project, user_id=actor.user_id, role=Role.ADMIN)
    audit.record(actor, "accounts.create_project", project, project_id=project.id)
    signals.project_created.send(sender=None, project_id=project.id)
    return project


@transaction.atomic
def restore_project(*, actor: Actor, project_id: str, name: str) -> Project:
    """Return the project of that id, else the one of that name, else a new one without members that has both."""
    require_site_admin(actor, "restore projects")
    known = Project.objects.filter(pk=project_id).first() or Project.objects.filter(name=name).first()
    if known is not None:
        return known
    check_name(name)
    project = Project.objects.create(id=project_id, name=name)
    audit.record(actor, "accounts.restore_project", project, project_id=project.id)
    signals.project_created.send(sender=None, project_id=project.id)
    return project


@transaction.atomic
def set_role(*, actor: Actor, project: Project, username: str, role: Role) -> Membership:
    """Make a person a member with that role, or change the role of one. Raises UserNotFound and LastAdmin."""
    require(actor, permissions.MANAGE_MEMBERS, project.id)
    user = _get_user(username)
    _lock(project)
    if role != Role.ADMIN:
        _check_admin_remains(project, without=user)
    membership, _ = Membership.objects.update_or_create(project=project, user=user, defaults={"role": role})
    audit.record(actor, "accounts.set_role", membership, project_id=project.id, username=username, role=str(role))
    return membership


@transaction.atomic
def remove_member(*, actor: Actor, project: Project, username: str) -> None:
    """End a person's membership. Raises UserNotFound and LastAdmin."""
    require(actor, permissions.MANAGE_MEMBERS, project.id)
    user = _get_user(username)
    _lock(project)
    _check_admin_remains(project, without=user)
    membership = Membership.objects.filter(project=project, user=user).first()
    if membership is None:
        raise UserNotFound(f"'{username}' is not a member of {project.name}.")
    audit.record(actor, "accounts.remove_member", membership, project_id=project.id, username=username)
    membership.delete()


@transaction.atomic
def create_user(*, actor: Actor, username: str, password: str | None, is_site_admin: bool = False) -> User:
    """Add a person. Without a password they can only sign in by a link.

    Raises InvalidName, PersonExists and WeakPassword.
    """
    require_site_admin(actor, "add people")
    check_name(username)
    if User.objects.filter(username=username).exists():
        raise PersonExists(f"There is a person called '{username}' already.")
    user = User(username=username, is_superuser=is_site_admin, is_staff=is_site_admin)
    if password is not None:
        _check_password(password, user)
    user.set_password(password)
    user.save()
    audit.record(actor, "accounts.create_user", user)
    return user


def _check_password(password: str, user: User) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise WeakPassword(" ".join(error.messages)) from error


def _get_user(username: str) -> User:
    user = User.objects.filter(username=username).first()
    if user is None:
        raise UserNotFound(f"There is nobody called '{username}'.")
    return user


def _lock(project: Project) -> None:
    Project.objects.select_for_update().get(pk=project.pk)


def _check_admin_remains(project: Project, *, without: User) -> None:
    admins = Membership.objects.filter(project=project, role=Role.ADMIN, user__is_active=True)
    if admins.filter(user=without).exists() and not admins.exclude(user=without).exists():
        raise LastAdmin(f"{without.username} is the last admin of {project.name}.")
