"""The scheduler app."""

from django.apps import AppConfig


class SchedulerConfig(AppConfig):
    """Queues, workloads, placements."""

    name = "scheduler"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register background work, connect receivers and join the shell."""
        from scheduler import receivers, tasks  # noqa: F401 (imported for their registrations)
        from scheduler.web import navigation  # noqa: F401
        from scheduler.workers import project_contents  # noqa: F401
