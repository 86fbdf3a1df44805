"""The compute app."""

from django.apps import AppConfig


class ComputeConfig(AppConfig):
    """Resources, templates, jobs, drivers."""

    name = "compute"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register background work and connect receivers."""
        from compute import receivers, tasks  # noqa: F401
