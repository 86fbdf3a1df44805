"""A full disk: one error for it, however deep and in whose words it was noticed."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog
from django.db import Error as DatabaseError

from core.errors import Blame, ErrorKind, PlatformError

log = structlog.get_logger(__name__)

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_SQLITE_FULL = "database or disk is full"
_POSTGRES_FULL = "53100"
_PROBE_BYTES = 64 * 1024


class StorageFull(PlatformError):
    """A disk of the server is full, or its quota used up: nothing can be saved, everything can be read."""

    code = "core.storage_full"
    kind = ErrorKind.STORAGE_FULL
    blame = Blame.PLATFORM
    hint = "Ask an admin to free space on the server; until then everything can be read."


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
    if isinstance(error, DatabaseError | sqlite3.Error) and _SQLITE_FULL in str(error):
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


def probe(folder: Path) -> None:
    """Write a little into a folder and remove it again. Raises OSError."""
    path = folder / ".probe"
    try:
        path.write_bytes(bytes(_PROBE_BYTES))
    finally:
        path.unlink(missing_ok=True)
