"""Roles and what they allow: the vocabulary of permissions, the role table, and the check.

Apps name their permissions in their own `permissions.py`, each as one of the three levels below. A level is what a
role grants; a permission's name says in audit entries and error texts what was asked for.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

from accounts.errors import PermissionDenied, ProjectNotFound

if TYPE_CHECKING:
    from accounts.actor import Actor


class Level(IntEnum):
    """How much of a project a permission opens. A higher level includes the lower ones."""

    READ = 1
    WRITE = 2
    ADMIN = 3


class Role(StrEnum):
    """A member's role in a project."""

    VIEWER = "viewer"
    MEMBER = "member"
    ADMIN = "admin"

    @property
    def level(self) -> Level:
        """The highest level that the role grants."""
        return {Role.VIEWER: Level.READ, Role.MEMBER: Level.WRITE, Role.ADMIN: Level.ADMIN}[self]

    @classmethod
    def of(cls, level: Level) -> "Role":
        """Return the role whose highest level it is."""
        return {Level.READ: cls.VIEWER, Level.WRITE: cls.MEMBER, Level.ADMIN: cls.ADMIN}[level]


@dataclass(frozen=True)
class Permission:
    """One thing that can be done to a project's things: its name in words, and the level that allows it."""

    name: str
    level: Level


VIEW_PROJECT = Permission("view the project", Level.READ)
MANAGE_MEMBERS = Permission("manage members", Level.ADMIN)
DELETE_PROJECT = Permission("delete the project", Level.ADMIN)
MANAGE_SECRETS = Permission("manage secrets", Level.ADMIN)
USE_SECRETS = Permission("use its secrets", Level.WRITE)
"""A project may keep it to its admins: see `services.secrets.require_use`."""
VIEW_AUDIT_LOG = Permission("read the audit log", Level.ADMIN)


def require(actor: "Actor", permission: Permission, project_id: str) -> None:
    """Raise PermissionDenied unless the actor has the permission in that project.

    Raises ProjectNotFound to someone who is not a member at all, so that names do not leak, and PermissionDenied to a
    member whose role is too low.
    """
    level = actor.level_in(project_id)
    if level is None:
        raise ProjectNotFound("There is no such project, or you are not a member of it.")
    if level < permission.level:
        raise PermissionDenied(f"Your role in this project does not allow you to {permission.name}.")


def require_site_admin(actor: "Actor", deed: str) -> None:
    """Raise PermissionDenied unless the actor is a site admin; `deed` completes "may ..."."""
    if not actor.is_site_admin:
        raise PermissionDenied(f"Only a site admin may {deed}.")
