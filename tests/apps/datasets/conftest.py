"""A store in a folder of the test, a dataset in it, and a clock that stands."""

from datetime import timedelta

import pytest

from core import clock
from tests.factories.datasets import make_dataset, make_store


@pytest.fixture
def store_row(db, tmp_path):
    return make_store(tmp_path / "store")


@pytest.fixture
def dataset(store_row, member, project):
    return make_dataset(member, project, "xrays")


@pytest.fixture
def at():
    """Move the clock to so many days after the start."""
    start = clock.now()
    with clock.frozen_at(start) as move:
        yield lambda days: move(start + timedelta(days))
