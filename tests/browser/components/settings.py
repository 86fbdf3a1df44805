"""The product's settings, with one more page: the components in every state."""

from pathlib import Path

from config.settings import *  # noqa: F403
from config.settings import TEMPLATES

ROOT_URLCONF = "tests.browser.components.urls"
TEMPLATES = [TEMPLATES[0] | {"DIRS": [*TEMPLATES[0]["DIRS"], Path(__file__).parent]}]
