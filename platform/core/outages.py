"""Outages of what the server cannot do without, in words: its disk is full, its database away or of another version."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import structlog
from django.core.exceptions import SynchronousOnlyOperation
from django.db import DatabaseError, Error, InterfaceError, OperationalError, ProgrammingError, connection
from django.db.migrations.executor import MigrationExecutor

from core import clock
from core.errors import Blame, ErrorKind, PlatformError

log = structlog.get_logger(__name__)

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_SQLITE_FULL = "database or disk is full"
_POSTGRES_FULL = "53100"
_PROBE_BYTES = 64 * 1024
_TELL_EVERY_S = 10.0
_tell_at: dict[str, float] = {}
_ask_again_at = 0.0
_is_pending = False

_CONNECTION_LOST = ("08", "57P", "53300")
"""How states of PostgreSQL begin that say that it is away, starts, stops, or takes no more connections."""
_NOT_THERE = frozenset({"42P01", "42703"})
"""PostgreSQL's states for a table or a column that is missing."""
_NOT_THERE_IN_SQLITE = ("no such table", "no such column", "has no column named")


class StorageFull(PlatformError):
    """A disk of the server is full, or its quota used up: nothing can be saved, everything can be read."""

    code = "core.storage_full"
    kind = ErrorKind.STORAGE_FULL
    blame = Blame.PLATFORM
    hint = "Ask an admin to free space on the server; until then everything can be read."


class DatabaseUnavailable(PlatformError):
    """The database does not answer: nothing can be read or saved until it does, and nothing is lost."""

    code = "core.database_unavailable"
    kind = ErrorKind.UNAVAILABLE
    blame = Blame.PLATFORM
    hint = "Try again in a minute. Admins find the cause in the log of the server."


class MigrationsPending(PlatformError):
    """The database is that of an earlier version: a table or a column is missing until its migrations are applied."""

    code = "core.migrations_pending"
    kind = ErrorKind.UNAVAILABLE
    blame = Blame.PLATFORM
    hint = "An admin applies them with `python manage.py setup`, run with the settings of the server."


def find_full(error: BaseException) -> StorageFull | None:
    """Return the error to answer with where a full disk is this error's cause; None for every other error."""
    cause: BaseException | None = error
    seen: set[int] = set()  # an error may be among its own causes
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, StorageFull):
            return cause
        if _says_full(cause):
            return StorageFull("The server's disk is full, so nothing can be saved.")
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return None


def _says_full(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in _FULL
    if isinstance(error, Error | sqlite3.Error) and _SQLITE_FULL in str(error):
        return True
    return getattr(error, "sqlstate", None) == _POSTGRES_FULL


@contextmanager
def optional_write() -> Iterator[None]:
    """Let what is inside fail on a full disk: a note that reading can do without, such as when a token was used."""
    try:
        yield
    except Exception as error:
        if find_full(error) is None:
            raise
        log.warning("storage.full", skipped=str(error))


def probe_disk(folder: Path) -> None:
    """Write a little into a folder and remove it again. Raises OSError."""
    path = folder / ".probe"
    try:
        path.write_bytes(bytes(_PROBE_BYTES))
    finally:
        path.unlink(missing_ok=True)


def find_outage(error: BaseException) -> PlatformError | None:
    """Return the error to answer with where an outage is this error's cause; None for others.

    What is wrong with a database is logged, once for all that meet it within ten seconds.
    """
    if (full := find_full(error)) is not None:
        return full
    cause: BaseException | None = error
    seen: set[int] = set()  # an error may be among its own causes
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, DatabaseUnavailable | MigrationsPending):
            return cause
        if isinstance(cause, OperationalError | InterfaceError) and _says_away(cause):
            tell("database.unavailable", cause)
            return DatabaseUnavailable("The server's database does not answer.")
        if isinstance(cause, OperationalError | ProgrammingError) and _says_missing(cause) and _has_pending_now():
            tell("database.migrations_pending", cause)
            return MigrationsPending("The server's database is not migrated to the version of the server.")
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return None


def has_pending_migrations() -> bool:
    """Whether migrations of this version are not applied to the database. Reads all of them: do not ask often."""
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def log_failure(log: Any, event: str, error: Exception, **facts: object) -> None:
    """Log what a thread that goes on could not do, with the traceback unless an outage is the cause."""
    outage = find_outage(error)
    if outage is None:
        log.error(event, exc_info=error, **facts)
    elif not isinstance(outage, DatabaseUnavailable | MigrationsPending):
        log.error(event, reason=outage.message, **facts)


def tell(event: str, reason: object) -> None:
    """Log an outage, once for all that meet it within ten seconds."""
    now = clock.monotonic()
    if now >= _tell_at.get(event, 0.0):
        _tell_at[event] = now + _TELL_EVERY_S
        log.error(event, error=str(reason).strip())


def _says_away(error: Exception) -> bool:
    """Whether PostgreSQL says that it is away; where it could not be reached, or broke off, it told no state."""
    state = getattr(error.__cause__, "sqlstate", "")
    return state is None or state.startswith(_CONNECTION_LOST)


def _says_missing(error: Exception) -> bool:
    """Whether the database says that a table or a column is missing."""
    is_missing = getattr(error.__cause__, "sqlstate", "") in _NOT_THERE
    return is_missing or any(words in str(error) for words in _NOT_THERE_IN_SQLITE)


def _has_pending_now() -> bool:
    """Whether migrations are pending, as of the last ten seconds; a query that is wrong fails on a whole database."""
    global _ask_again_at, _is_pending  # noqa: PLW0603 (a process has one database)
    now = clock.monotonic()
    if now >= _ask_again_at:
        _is_pending = False
        with suppress(DatabaseError, SynchronousOnlyOperation):  # in a broken transaction, or in an event loop
            _is_pending = has_pending_migrations()
            _ask_again_at = now + _TELL_EVERY_S
    return _is_pending
