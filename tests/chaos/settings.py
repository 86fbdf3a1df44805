"""The product's settings with task queues that have a bad day: `DJANGO_SETTINGS_MODULE=tests.chaos.settings`."""

from config.settings import *  # noqa: F403 (settings are a module of names)

TASK_QUEUES = {"process": "tests.chaos.queues.ChaoticLocal", "broker": "tests.chaos.queues.ChaoticCelery"}
