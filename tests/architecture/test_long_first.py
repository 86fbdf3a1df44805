"""What takes longest begins first, and nothing else changes its place."""

from types import SimpleNamespace

from tests.long_first import pytest_collection_modifyitems


def test_long_suites_come_first_and_keep_their_order():
    names = [
        "tests/apps/a.py::x",
        "tests/journeys/b.py::y",
        "client/tests/c.py::z",
        "tests/fuzz/d.py::x",
        "tests/engine/e.py::z",
    ]
    items = [SimpleNamespace(nodeid=name) for name in names]
    pytest_collection_modifyitems(items)
    assert [item.nodeid for item in items] == [names[1], names[3], names[0], names[2], names[4]]
