import pytest
from django.conf import settings

from core import doorbell
from tests.factories.flows import World


@pytest.fixture(autouse=True)
def _silent_doorbell():
    before = doorbell.install(doorbell.Silent())
    yield
    doorbell.install(before)


@pytest.fixture
def world(db, tmp_path) -> World:
    """Resources that do what the test says."""
    assert str(settings.NEARLINE.home).startswith("/")
    return World(tmp_path)
