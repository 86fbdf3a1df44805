import pytest
from django.conf import settings

from core import tasks
from tests.factories.flows import World


@pytest.fixture(autouse=True)
def _null_queue():
    before = tasks.install(tasks.NullQueue())
    yield
    tasks.install(before)


@pytest.fixture
def world(db, tmp_path) -> World:
    """Resources that do what the test says."""
    assert str(settings.NEARLINE.home).startswith("/")
    return World(tmp_path)
