"""The core app: no product nouns, only what every app shares."""

from django.apps import AppConfig


class CoreConfig(AppConfig):
    """The shared kernel."""

    name = "core"
    default_auto_field = "django.db.models.BigAutoField"
