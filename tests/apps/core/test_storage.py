"""What a full disk is recognised by, in whoever's words."""

import errno
import sqlite3

import pytest
from django.db import OperationalError

from core.errors import NotFound
from core.outages import find_full, optional_write, probe_disk
from datasets.errors import StoreUnreachable


def caused(error: Exception, *, by: Exception) -> Exception:
    error.__cause__ = by
    return error


class _PostgresFull(Exception):
    sqlstate = "53100"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        sqlite3.OperationalError("database or disk is full"),
        OperationalError("database or disk is full"),
        caused(OperationalError("could not extend file"), by=_PostgresFull()),
        caused(StoreUnreachable("The store's folder cannot be written."), by=OSError(errno.ENOSPC, "full")),
    ],
)
def test_a_full_disk_is_one_error_in_whoevers_words(error):
    full = find_full(error)

    assert full is not None
    assert (full.code, full.message) == ("core.storage_full", "The server's disk is full, so nothing can be saved.")


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EACCES, "Permission denied"),
        OperationalError("database is locked"),
        NotFound("No 'database or disk is full'."),
    ],
)
def test_other_errors_are_not_taken_for_a_full_disk(error):
    assert find_full(error) is None


def test_an_error_that_is_its_own_cause_is_looked_at_once():
    error = NotFound("Nothing is there.")

    assert find_full(caused(error, by=error)) is None


def test_a_write_that_reading_can_do_without_is_dropped_on_a_full_disk_and_only_there():
    with optional_write():
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(ValueError, match="wrong"), optional_write():
        raise ValueError("wrong")


def test_a_folder_that_can_be_written_leaves_no_trace_of_the_probe(tmp_path):
    probe_disk(tmp_path)

    assert list(tmp_path.iterdir()) == []
