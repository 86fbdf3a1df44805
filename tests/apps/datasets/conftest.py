"""A store in a folder of the test, and a dataset in it."""

import pytest

from tests.factories.datasets import make_dataset, make_store


@pytest.fixture
def store_row(db, tmp_path):
    return make_store(tmp_path / "store")


@pytest.fixture
def dataset(store_row, member, project):
    return make_dataset(member, project, "xrays")
