"""Threads that live long keep their database connections, and lose only broken ones."""

import pytest
from django.db import connection

from core import connections


@pytest.mark.django_db(transaction=True)
def test_a_connection_is_kept_until_it_breaks(monkeypatch):
    connection.ensure_connection()
    connection.close_at = 0
    kept = connection.connection

    connections.keep_usable()
    assert connection.connection is kept

    connection.errors_occurred = True
    monkeypatch.setattr(connection, "is_usable", lambda: False)
    connections.keep_usable()
    assert connection.connection is None
