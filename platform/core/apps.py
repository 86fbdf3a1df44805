"""The core app: no product nouns, only what every app shares."""

from django.apps import AppConfig
from django.urls import register_converter
from django.urls.converters import PathConverter


class FileConverter(PathConverter):
    """The path of a file, in which every character may stand, also the end of a line."""

    regex = "(?s:.+)"


class CoreConfig(AppConfig):
    """The shared kernel."""

    name = "core"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Let addresses have paths of files."""
        register_converter(FileConverter, "file")
