"""Journeys share one running product; a test that kills it starts its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.product import Product, new_product


@pytest.fixture(scope="session")
def product(tmp_path_factory) -> Iterator[Product]:
    running = new_product(tmp_path_factory.mktemp("product") / "home").start()
    yield running
    running.stop()


@pytest.fixture
def own_product(tmp_path) -> Iterator[Product]:
    """A product that the test may kill and start again."""
    mine = new_product(tmp_path / "home").start()
    yield mine
    mine.stop()


@pytest.fixture
def folder(tmp_path) -> Path:
    made = tmp_path / "digits"
    made.mkdir()
    return made
