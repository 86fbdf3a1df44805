import pytest
from django.conf import settings

from tests.factories.flows import World


@pytest.fixture(autouse=True)
def _null_queue(null_queue) -> None:
    """Nobody works on runs in the background."""


@pytest.fixture
def world(db, tmp_path) -> World:
    """Resources that do what the test says."""
    assert str(settings.NEARLINE.home).startswith("/")
    return World(tmp_path)
