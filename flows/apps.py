"""The flows app."""

from django.apps import AppConfig


class FlowsConfig(AppConfig):
    """Flows and runs."""

    name = "flows"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register what runs in the background and what other apps' news lead to; join the shell."""
        from flows import receivers, tasks  # noqa: F401
        from flows.selectors import experiment_source  # noqa: F401
        from flows.web import navigation  # noqa: F401
        from flows.workers import project_contents  # noqa: F401
