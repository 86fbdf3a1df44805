"""The core app: no product nouns, only what every app shares."""

from django.apps import AppConfig
from django.urls import register_converter

from core.addresses import FileConverter


class CoreConfig(AppConfig):
    """The shared kernel."""

    name = "core"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Let addresses have paths of files."""
        register_converter(FileConverter, "file")
