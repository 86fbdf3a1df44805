"""Database connections of threads that work for as long as the process lives.

Django closes a connection after each request or as soon as it is old; for a thread that runs a dozen tasks a second
opening a new one each time costs more than the queries themselves.
"""

from django.db import connections


def keep_usable() -> None:
    """Keep this thread's connections for its next work, except those that broke."""
    for connection in connections.all(initialized_only=True):
        connection.close_at = None
        connection.close_if_unusable_or_obsolete()


def close_all() -> None:
    """Close this thread's connections, at its end."""
    connections.close_all()
