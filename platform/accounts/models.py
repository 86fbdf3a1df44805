"""People, projects, and what they hold: memberships, tokens, secrets, and the audit log."""

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import models

from accounts.permissions import Role
from core.orm import BaseModel


class User(AbstractUser):
    """A person. `is_superuser` makes a site admin; who is not `is_active` cannot sign in.

    `sign_out_count`: how often all sessions were ended; those that began before the last time are worthless.
    """

    sign_out_count = models.PositiveIntegerField(default=0)

    def get_session_auth_hash(self) -> str:
        """Return what a session must hold to be valid."""
        return f"{super().get_session_auth_hash()}.{self.sign_out_count}"


class Project(BaseModel):
    """A team: owns datasets, flows and jobs, and holds a GPU quota.

    A deleted project is hidden at once, and its work is stopped. It keeps its name and can be restored until
    `restore_ends_at`, which is null once it was deleted for good. Then what it has is removed; `waits_for` says what
    holds that up. From `removed_at` on the row is only a record, which others' history names, and the name is free.
    """

    id_prefix = "proj"

    name = models.CharField(max_length=127, unique=True)
    description = models.CharField(max_length=500, blank=True)
    secret_users = models.CharField(
        max_length=10,
        choices=[(role.value, role.value) for role in (Role.MEMBER, Role.ADMIN)],
        default=Role.MEMBER.value,
        help_text="The lowest role that may start what uses the project's secrets.",
    )
    deleted_at = models.DateTimeField(null=True)
    deleted_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    restore_ends_at = models.DateTimeField(null=True)
    waits_for = models.TextField(blank=True)
    removed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(restore_ends_at=None) | models.Q(deleted_at__isnull=False),
                name="only_deleted_projects_are_restorable",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Membership(BaseModel):
    """A person's role in a project."""

    id_prefix = "mem"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=[(role.value, role.value) for role in Role])

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "user"], name="one_role_per_member")]

    def __str__(self) -> str:
        return f"{self.user.username} as {self.role} of {self.project.name}"


class ApiToken(BaseModel):
    """A personal access token. Only the SHA-256 of its secret is kept."""

    id_prefix = "tok"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    secret_sha256 = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name


class SignInLink(BaseModel):
    """A link that signs one person in once. Only the SHA-256 of its secret is kept."""

    id_prefix = "link"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    secret_sha256 = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"sign-in link of {self.user.username}"


class Secret(BaseModel):
    """A value that jobs of a project may ask for by name; encrypted at rest, never shown again."""

    id_prefix = "sec"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="secrets")
    name = models.CharField(max_length=100)
    ciphertext = models.BinaryField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="one_secret_per_name")]

    def __str__(self) -> str:
        return self.name


class AuditEntry(BaseModel):
    """Who did what to which thing. Append only."""

    id_prefix = "aud"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True)
    actor_name = models.CharField(max_length=200)
    action = models.CharField(max_length=100)
    target_kind = models.CharField(max_length=50)
    target_id = models.CharField(max_length=64)
    target_name = models.CharField(max_length=300)
    project_id = models.CharField(max_length=32, blank=True, db_index=True)
    facts = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"{self.actor_name} {self.action} {self.target_name}"
