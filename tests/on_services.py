"""Chooses the tests that `make services` passes again: those to which a database server or a broker makes a difference.

Loaded as a plugin of pytest. The other tests give the same result on every database; `make test` passes them.
"""

import pytest

WHOLE = ("tests/journeys/", "tests/drills/", "tests/upgrade/")
"""Suites that start the product as a whole."""
ALIKE = (
    "tests/drills/test_flow_kills.py",
    "tests/drills/test_kill_hydration.py",
    "tests/drills/test_ledger_kills.py",
    "tests/drills/test_local_driver_kills.py",
    "tests/fuzz/test_forms.py",
    "tests/fuzz/test_probes.py",
    "tests/journeys/test_docker_host.py",
)
"""Files with long tests that give the same result all the same: these drills have an SQLite of their own, or no database;
pages call the services that `tests/fuzz/test_api.py` reaches; what a container does is the same whatever stores the
platform's rows.
"""


def uses_a_service(test: pytest.Item) -> bool:
    """Whether a test starts the product, uses the database, or is marked `services`, and its file is not `ALIKE`."""
    if test.nodeid.startswith(ALIKE):
        return False
    is_whole = test.nodeid.startswith(WHOLE)
    is_of_the_database = test.get_closest_marker("django_db") or "django_db_setup" in getattr(test, "fixturenames", ())
    return bool(is_whole or is_of_the_database or test.get_closest_marker("services"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that would give the same result."""
    config.hook.pytest_deselected(items=[test for test in items if not uses_a_service(test)])
    items[:] = [test for test in items if uses_a_service(test)]
