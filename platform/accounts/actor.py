"""Who is asking: a person, or the platform itself. Every service and selector takes one first."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from accounts.permissions import Level


@dataclass(frozen=True)
class Actor:
    """The identity behind a call, with the level it holds in each of its projects.

    `user_id` is None for the platform itself. `name` is what audit entries and pages show.
    """

    user_id: int | None
    name: str
    is_site_admin: bool = False
    levels: Mapping[str, Level] = field(default_factory=dict)

    @classmethod
    def system(cls, reason: str) -> "Actor":
        """Return the platform acting by itself, `reason` saying which part of it and why."""
        return cls(user_id=None, name=f"system: {reason}", is_site_admin=True)

    def level_in(self, project_id: str) -> Level | None:
        """Return the level held in a project; None for someone who is not a member."""
        return Level.ADMIN if self.is_site_admin else self.levels.get(project_id)

    @property
    def may_write_somewhere(self) -> bool:
        """Whether there is a project in which the actor may write, so that pages offer to add things."""
        return self.is_site_admin or any(level >= Level.WRITE for level in self.levels.values())

    @property
    def sees_everything(self) -> bool:
        """Whether lists need no limit to the actor's own projects."""
        return self.is_site_admin

    @property
    def project_ids(self) -> list[str]:
        """The projects that the actor is a member of."""
        return list(self.levels)
