"""The composition root as a Django app: it wires adapters to ports once everything is loaded."""

from django.apps import AppConfig


class ConfigConfig(AppConfig):
    """Imports every app and is imported by none."""

    name = "config"

    def ready(self) -> None:
        """Choose the adapters of this process, and how its threads share memory."""
        from config import wiring
        from core import memory
        from web import navigation

        navigation.add_tab(
            navigation.Tab("Health", "/settings/health/", 70, site_admin_only=True, words="redis broker store outage")
        )
        memory.share_arenas()
        wiring.wire()
