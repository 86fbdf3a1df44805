"""Who is asking, and what they may do: the actor that every service and selector takes first, roles, and the check.

Apps name their permissions in their own `permissions.py`, each as one of the three levels below. A level is what a
role grants; a permission's name says in audit entries and error texts what was asked for.

Whoever has checked the credential of a request tells its caller to whoever gives out turns before Django.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum

from accounts.errors import PermissionDenied, ProjectNotFound

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("caller_listener", default=None)


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
class Actor:
    """The identity behind a call, with the level it holds in each of its projects.

    `user_id` is None for the platform itself. `name` is what audit entries and pages show. `hidden_project_ids` are
    deleted projects, which not even a site admin sees; with any, `levels` of a site admin are those in all others.
    `ends_at` is the end of the token by which a person asks; None: it has none, or they ask otherwise.
    """

    user_id: int | None
    name: str
    is_site_admin: bool = False
    levels: Mapping[str, Level] = field(default_factory=dict)
    hidden_project_ids: frozenset[str] = frozenset()
    ends_at: datetime | None = None

    @classmethod
    def system(cls, reason: str) -> "Actor":
        """Return the platform acting by itself, `reason` saying which part of it and why."""
        return cls(user_id=None, name=f"system: {reason}", is_site_admin=True)

    def level_in(self, project_id: str) -> Level | None:
        """Return the level held in a project; None for someone who is not a member."""
        if self.is_site_admin:
            return None if project_id in self.hidden_project_ids else Level.ADMIN
        return self.levels.get(project_id)

    @property
    def may_write_somewhere(self) -> bool:
        """Whether there is a project in which the actor may write, so that pages offer to add things."""
        return self.is_site_admin or any(level >= Level.WRITE for level in self.levels.values())

    @property
    def sees_everything(self) -> bool:
        """Whether lists need no limit to the actor's own projects."""
        return self.is_site_admin and not self.hidden_project_ids

    @property
    def project_ids(self) -> list[str]:
        """The projects to which lists are limited, unless the actor sees everything."""
        return list(self.levels)


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


def require(actor: Actor, permission: Permission, project_id: str) -> None:
    """Raise PermissionDenied unless the actor has the permission in that project.

    Raises ProjectNotFound to someone who is not a member at all, so that names do not leak, and PermissionDenied to a
    member whose role is too low.
    """
    level = actor.level_in(project_id)
    if level is None:
        raise ProjectNotFound("There is no such project, or you are not a member of it.")
    if level < permission.level:
        raise PermissionDenied(f"Your role in this project does not allow you to {permission.name}.")


def require_site_admin(actor: Actor, deed: str) -> None:
    """Raise PermissionDenied unless the actor is a site admin; `deed` completes "may ..."."""
    if not actor.is_site_admin:
        raise PermissionDenied(f"Only a site admin may {deed}.")


def listen_for_caller(listener: Callable[[str], None]) -> None:
    """Have `listener` called with who the caller of the present request is, should that be checked."""
    _listener.set(listener)


def tell_caller(name: str) -> None:
    """Say who the caller of the present request is; empty: nobody else than whoever holds this credential."""
    if (listener := _listener.get()) is not None:
        listener(name)
