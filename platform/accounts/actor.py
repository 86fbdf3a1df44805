"""Who is asking: a person, or the platform itself. Every service and selector takes one first.

Whoever has checked the credential of a request tells its caller to whoever gives out turns before Django.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime

from accounts.permissions import Level

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("caller_listener", default=None)


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


def listen_for_caller(listener: Callable[[str], None]) -> None:
    """Have `listener` called with who the caller of the present request is, should that be checked."""
    _listener.set(listener)


def tell_caller(name: str) -> None:
    """Say who the caller of the present request is; empty: nobody else than whoever holds this credential."""
    if (listener := _listener.get()) is not None:
        listener(name)
