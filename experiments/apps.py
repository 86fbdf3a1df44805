"""The experiments app."""

from django.apps import AppConfig


class ExperimentsConfig(AppConfig):
    """Experiments: parameters, metrics, tags, notes and artifacts of jobs, and of programs that run elsewhere."""

    name = "experiments"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register background tasks and receivers, and add entries to the page shell."""
        from experiments import receivers, tasks  # noqa: F401
        from experiments.web import navigation  # noqa: F401
        from experiments.workers import project_contents  # noqa: F401
