"""The accounts app."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """People, projects, roles, tokens, the audit log."""

    name = "accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register background tasks."""
        from accounts import tasks  # noqa: F401
