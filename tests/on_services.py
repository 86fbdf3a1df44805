"""Chooses the tests that `make services` passes again: those to which a database server or a broker makes a difference.

Loaded as a plugin of pytest. The other tests give the same result on every database; `make test` passes them.
"""

import pytest

WHOLE = ("tests/journeys/", "tests/drills/")
"""Suites that start the product as a whole."""
OWN_DATABASE = (
    "tests/drills/test_flow_kills.py",
    "tests/drills/test_kill_hydration.py",
    "tests/drills/test_ledger_kills.py",
    "tests/drills/test_local_driver_kills.py",
)
"""Of these, those that have an SQLite of their own, or no database, whatever is at hand."""


def uses_a_service(test: pytest.Item) -> bool:
    """Whether a test starts the product, uses the database, or is marked `services`."""
    is_whole = test.nodeid.startswith(WHOLE) and not test.nodeid.startswith(OWN_DATABASE)
    is_of_the_database = test.get_closest_marker("django_db") or "django_db_setup" in getattr(test, "fixturenames", ())
    return bool(is_whole or is_of_the_database or test.get_closest_marker("services"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that would give the same result."""
    config.hook.pytest_deselected(items=[test for test in items if not uses_a_service(test)])
    items[:] = [test for test in items if uses_a_service(test)]
