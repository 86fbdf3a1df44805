"""Locks of files, which the system releases when their holder ends."""

import fcntl
from typing import IO


def try_lock(file: int | IO[str]) -> bool:
    """Take the lock of an open file until it is closed; return whether nobody else holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
