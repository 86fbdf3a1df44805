"""What the system refuses reads as a sentence with the path, a reason and a hint, under one code."""

import errno
import os

import pytest

from nearline.cli.output import failure_of
from nearline.errors import DENIED_HINT, FULL_DISK_HINT, SHORTER_PATH_HINT, TAKEN_HINT


@pytest.mark.parametrize(
    ("number", "reason", "hint"),
    [
        (errno.EEXIST, "File exists", TAKEN_HINT),
        (errno.ENOTDIR, "Not a directory", TAKEN_HINT),
        (errno.EISDIR, "Is a directory", TAKEN_HINT),
        (errno.EACCES, "Permission denied", DENIED_HINT),
        (errno.EROFS, "Read-only file system", DENIED_HINT),
        (errno.ENOSPC, "No space left on device", FULL_DISK_HINT),
        (errno.EDQUOT, "Disk quota exceeded", FULL_DISK_HINT),
        (errno.ENAMETOOLONG, "File name too long", SHORTER_PATH_HINT),
        (errno.EIO, "Input/output error", ""),
    ],
)
def test_what_the_system_refuses_names_path_reason_and_what_to_do(number, reason, hint):
    failure = failure_of(OSError(number, os.strerror(number), "data/a"))

    assert failure.message == f"'data/a' cannot be used: {reason}."
    assert (failure.code, failure.hint) == ("client.local_file", hint)


def test_of_two_names_the_one_to_be_made_is_named():
    failure = failure_of(OSError(errno.EEXIST, "File exists", "cached", None, "data/a"))

    assert failure.message == "'data/a' cannot be used: File exists."


def test_a_full_disk_is_told_without_a_name_and_names_stay_on_one_line():
    full = failure_of(OSError(errno.ENOSPC, "No space left on device"))
    broken = failure_of(OSError(errno.EIO, "Input/output error", b"a\nb"))

    assert (full.message, full.code) == ("No space left on device.", "client.local_file")
    assert broken.message == "'a\\nb' cannot be used: Input/output error."
