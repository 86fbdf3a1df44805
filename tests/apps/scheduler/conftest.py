import pytest

from core import clock
from tests.factories.scheduler import NOON


@pytest.fixture
def move():
    """Let the clock stand at noon, and return what sets it."""
    with clock.frozen_at(NOON) as set_clock:
        yield set_clock
