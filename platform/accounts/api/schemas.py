"""What the routes of people, projects, tokens and secrets take and answer."""

from datetime import datetime
from typing import Annotated, Literal

from ninja import Schema
from pydantic import Field

from accounts.models import Membership, Project
from accounts.permissions import Role
from core import bounds
from core.bodies import BodySchema

Name = Annotated[str, Field(min_length=1, max_length=100)]


class ProjectRoleOut(Schema):
    """A project that the caller is a member of."""

    name: str
    role: Role


class MeOut(Schema):
    """Who the caller is."""

    name: str
    is_site_admin: bool
    projects: list[ProjectRoleOut]


class OwnNameIn(BodySchema):
    """What the caller is called on pages; the name to sign in with stays."""

    first_name: str = Field(default="", max_length=150)
    last_name: str = Field(default="", max_length=150)


class ProjectIn(BodySchema):
    """A new project."""

    name: bounds.Name
    description: str = Field(default="", max_length=500)


class ProjectOut(Schema):
    """A project; `role` is the caller's."""

    id: str
    name: str
    description: str
    role: Role
    secret_users: Role
    created_at: datetime


class ProjectPatch(BodySchema):
    """What changes about a project. `secret_users`: the lowest role that may start what uses its secrets."""

    secret_users: Literal[Role.MEMBER, Role.ADMIN]


class ProjectsOut(Schema):
    """A page of projects."""

    items: list[ProjectOut]
    next_cursor: str | None


class EffectItemOut(Schema):
    """A thing that a deletion concerns."""

    name: str
    text: str = Field(description="What there is to say of it, such as by whom it was started.")


class EffectOut(Schema):
    """What a deletion does to the things of one kind."""

    kind: str = Field(description="What they are, such as `running_jobs`.")
    count: int = Field(description="How many there are.")
    text: str = Field(description="How many there are and what becomes of them, as a sentence.")
    size_bytes: int = Field(description="What they take in the store or on cache sites; 0: nothing.")
    items: list[EffectItemOut] = Field(description="The first of them, where their names help.")


class DeletionForecastOut(Schema):
    """What the deletion of a project would do."""

    project: str = Field(description="The project's name.")
    restore_days: int = Field(description="Days that it can be restored; 0: it cannot.")
    effects: list[EffectOut] = Field(description="What becomes of what it has; what there is none of is left out.")


class DeletedProjectOut(Schema):
    """A deleted project. Its name is free once all that it has is removed."""

    id: str
    name: str
    deleted_at: datetime
    deleted_by: str | None = Field(description="Who deleted it.")
    restore_ends_at: datetime | None = Field(description="Until when it can be restored; null: it cannot.")
    waits_for: str = Field(description="What its removal waits for; empty: for nothing, or it can be restored.")

    @staticmethod
    def resolve_deleted_by(project: Project) -> str | None:
        """Return the person's name."""
        return project.deleted_by.username if project.deleted_by else None


class DeletedProjectsOut(Schema):
    """A page of deleted projects."""

    items: list[DeletedProjectOut]
    next_cursor: str | None


class RoleIn(BodySchema):
    """The role that a person shall have."""

    role: Role


class MemberOut(Schema):
    """A member of a project."""

    username: str
    role: Role
    created_at: datetime

    @staticmethod
    def resolve_username(membership: Membership) -> str:
        """Return the person's name."""
        return membership.user.username


class MembersOut(Schema):
    """A page of members."""

    items: list[MemberOut]
    next_cursor: str | None


class TokenIn(BodySchema):
    """A new token of the caller's; without an end it lives until it is revoked."""

    name: Name
    expires_at: bounds.Moment | None = None


class TokenOut(Schema):
    """A token without its secret, which was shown once."""

    id: str
    name: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


class NewTokenOut(TokenOut):
    """A token that was just made, with its secret."""

    secret: str


class TokensOut(Schema):
    """A page of tokens."""

    items: list[TokenOut]
    next_cursor: str | None


class SecretIn(BodySchema):
    """The value of a secret."""

    value: Annotated[str, Field(max_length=65536)]


class SecretOut(Schema):
    """A secret without its value, which is never shown."""

    name: str
    updated_at: datetime


class SecretsOut(Schema):
    """A page of secrets."""

    items: list[SecretOut]
    next_cursor: str | None


class AuditEntryOut(Schema):
    """Who did what to which thing, and when."""

    id: str
    created_at: datetime
    actor_name: str
    action: str
    target_kind: str
    target_id: str
    target_name: str
    facts: dict[str, object]


class AuditOut(Schema):
    """A page of audit entries."""

    items: list[AuditEntryOut]
    next_cursor: str | None


class UserIn(BodySchema):
    """A new person. Without a password they can sign in only by a link."""

    username: bounds.Name
    password: bounds.Line | None = None
    is_site_admin: bool = False


class UserOut(Schema):
    """A person; who is disabled cannot sign in."""

    username: str
    is_site_admin: bool
    is_disabled: bool


class DisableIn(BodySchema):
    """Whether what runs for the person is cancelled too."""

    stop_work: bool = False


class WorkItemOut(Schema):
    """A run or a job of a person that has not ended."""

    kind: str
    name: str
    project: str
    url: str


class DisabledOut(UserOut):
    """A person who was disabled, and what ran for them at that moment."""

    work: list[WorkItemOut]


class SignOutIn(BodySchema):
    """Whether the person's access tokens are revoked too."""

    revoke_tokens: bool = False


class UsersOut(Schema):
    """A page of people."""

    items: list[UserOut]
    next_cursor: str | None


class SignInLinkOut(Schema):
    """Where the person signs in; it works once."""

    url: str
