"""The web app."""

from django.apps import AppConfig


class WebConfig(AppConfig):
    """The shell around every page, and the components that pages are made of."""

    name = "web"
