"""The compute app."""

from django.apps import AppConfig


class ComputeConfig(AppConfig):
    """Resources, templates, jobs, drivers."""

    name = "compute"
    default_auto_field = "django.db.models.BigAutoField"
