"""Orders a test run so that what takes longest begins first.

Loaded as a plugin of pytest. Processes side by side take file after file: a file of one test that takes minutes, begun last,
would leave the others without work until it ends. For the same reason xdist must not sort files by their number of tests.
"""

import pytest

SUITES = (
    "tests/journeys/",
    "tests/drills/",
    "tests/docs/",
    "tests/upgrade/",
    "tests/fuzz/",
    "tests/kubernetes/test_chart.py",
    "tests/kubernetes/test_volume_site.py",
)
"""Suites and files with tests of a minute and more; the others follow in the order in which they were collected."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of these suites in front, otherwise in the order that pytest-django gave them."""
    items.sort(key=lambda test: not test.nodeid.startswith(SUITES))
