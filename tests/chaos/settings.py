"""The product's settings with doorbells that have a bad day: `DJANGO_SETTINGS_MODULE=tests.chaos.settings`."""

from config.settings import *  # noqa: F403 (settings are a module of names)

DOORBELLS = {"process": "tests.chaos.doorbells.ChaoticLocal", "broker": "tests.chaos.doorbells.ChaoticCelery"}
