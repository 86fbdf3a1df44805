"""The datasets app."""

from django.apps import AppConfig


class DatasetsConfig(AppConfig):
    """Versions in the store, and cached commits."""

    name = "datasets"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the background work and join the shell."""
        from datasets import tasks  # noqa: F401
        from datasets.web import navigation  # noqa: F401
        from datasets.workers import project_contents  # noqa: F401
