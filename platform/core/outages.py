"""Outages of what the server cannot do without, in words: its disk is full, or its database does not answer."""

from typing import Any

import structlog
from django.db import InterfaceError, OperationalError

from core import clock
from core.errors import Blame, ErrorKind, PlatformError
from core.storage import find_full

log = structlog.get_logger(__name__)

_NO_TABLE = "42P01"
_TELL_EVERY_S = 10.0
_tell_at = 0.0

_CONNECTION_LOST = ("08", "57P", "53300")
"""How states of PostgreSQL begin that say that it is away, starts, stops, or takes no more connections."""


class DatabaseUnavailable(PlatformError):
    """The database does not answer: nothing can be read or saved until it does, and nothing is lost."""

    code = "core.database_unavailable"
    kind = ErrorKind.UNAVAILABLE
    blame = Blame.PLATFORM
    hint = "Try again in a minute. Admins find the cause at /readyz."


def find_outage(error: BaseException) -> PlatformError | None:
    """Return the error to answer with where an outage is this error's cause; None for others.

    A database that is away is logged, once for all that meet it within ten seconds.
    """
    if (full := find_full(error)) is not None:
        return full
    cause: BaseException | None = error
    seen: set[int] = set()  # an error may be among its own causes
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, DatabaseUnavailable):
            return cause
        if isinstance(cause, OperationalError | InterfaceError) and _says_away(cause):
            _tell(cause)
            return DatabaseUnavailable("The server's database does not answer.")
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return None


def is_unprepared(error: Exception) -> bool:
    """Whether an error says that a table is missing, as in a database that `manage.py setup` has not seen."""
    return getattr(error.__cause__, "sqlstate", "") == _NO_TABLE or "no such table" in str(error)


def log_failure(log: Any, event: str, error: Exception, **facts: object) -> None:
    """Log what a thread that goes on could not do, with the traceback unless an outage is the cause."""
    outage = find_outage(error)
    if outage is None:
        log.error(event, exc_info=error, **facts)
    elif not isinstance(outage, DatabaseUnavailable):
        log.error(event, reason=outage.message, **facts)


def _tell(error: Exception) -> None:
    global _tell_at  # noqa: PLW0603 (a process has one database)
    now = clock.monotonic()
    if now >= _tell_at:
        _tell_at = now + _TELL_EVERY_S
        log.error("database.unavailable", error=str(error).strip())


def _says_away(error: Exception) -> bool:
    """Whether PostgreSQL says that it is away; where it could not be reached, or broke off, it told no state."""
    state = getattr(error.__cause__, "sqlstate", "")
    return state is None or state.startswith(_CONNECTION_LOST)
