"""The flows app."""

from django.apps import AppConfig


class FlowsConfig(AppConfig):
    """Flows, runs, experiments."""

    name = "flows"
    default_auto_field = "django.db.models.BigAutoField"
