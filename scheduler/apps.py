"""The scheduler app."""

from django.apps import AppConfig


class SchedulerConfig(AppConfig):
    """Queues, workloads, placements."""

    name = "scheduler"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the background tasks and the receivers."""
        from scheduler import receivers, tasks  # noqa: F401 (imported for their registrations)
