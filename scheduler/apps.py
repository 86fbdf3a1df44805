"""The scheduler app."""

from django.apps import AppConfig


class SchedulerConfig(AppConfig):
    """Queues, workloads, placements."""

    name = "scheduler"
    default_auto_field = "django.db.models.BigAutoField"
