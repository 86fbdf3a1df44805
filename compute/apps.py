"""The compute app."""

from django.apps import AppConfig


class ComputeConfig(AppConfig):
    """Resources, templates, jobs, drivers."""

    name = "compute"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register background tasks and answers to other hosts, and join the shell."""
        from compute import receivers, tasks  # noqa: F401
        from compute.web import navigation  # noqa: F401
        from compute.workers import project_contents  # noqa: F401
