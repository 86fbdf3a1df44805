"""The datasets app."""

from django.apps import AppConfig


class DatasetsConfig(AppConfig):
    """Versions in the store, and cached commits."""

    name = "datasets"
    default_auto_field = "django.db.models.BigAutoField"
