"""What people are told while they wait, and that the memory of a transfer stays whole."""

import platform
import subprocess
import sys

import pytest

from nearline.cli.output import Output
from nearline.cli.progress import Lines, OutageNotice, describe, progress_of
from nearline.content.retry import Waiting
from nearline.transfer.progress import Progress


def test_files_bytes_rate_and_what_is_left_are_said():
    moment = Progress("uploading", 12, 1797, 3_200_000, 9_900_000, rate_bytes_s=1_100_000, eta_s=6.1)

    assert describe(moment) == "Uploading 12 of 1,797 files, 3.2 MB of 9.9 MB, 1.1 MB/s, 6.1 s left"


def test_what_is_unknown_is_left_out():
    assert describe(Progress("looking", 12, None, 0, None)) == "Looking 12 files"


def test_lines_come_every_few_seconds_and_not_for_every_file():
    now, written = [0.0], []
    lines = Lines(write=written.append, clock=lambda: now[0])

    for second in range(21):
        now[0] = float(second)
        lines(Progress("uploading", second, 100, 0, None))

    assert written == [f"Uploading {done} of 100 files" for done in (5, 10, 15, 20)]


def test_quiet_shows_nothing(capsys):
    with progress_of(Output(is_quiet=True)) as show:
        show(Progress("uploading", 1, 2, 3, 4))

    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar_that_is_gone_at_the_end(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")

    with progress_of(Output()) as show:
        show(Progress("uploading", 1, 2, 3, 4))

    assert "Uploading 1 of 2 files" in capsys.readouterr().err


REASON = "Cannot reach http://server: Connection refused."


def test_an_absence_is_told_with_how_long_is_left_and_again_every_half_minute(capsys):
    now = 0.0
    notice = OutageNotice(Output(), clock=lambda: now)

    for now in (0.0, 2.0, 4.0, 20.0, 33.0, 35.0):
        notice(Waiting(REASON, now, 600.0))

    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"! {REASON} Trying again, for at most 9 min 56 s more.",
        f"! {REASON} Trying again, for at most 9 min 25 s more.",
    ]


def test_what_is_over_at_once_is_not_told(capsys):
    OutageNotice(Output())(Waiting(REASON, 2.9, 600.0))

    assert capsys.readouterr().err == ""


PROGRAM = """
import ctypes
from nearline.cli import progress

class Info(ctypes.Structure):
    _fields_ = [("size_%d" % number, ctypes.c_size_t) for number in range(10)]

{first}
freed = bytes(16 << 20)
del freed
pieces = [bytes(4 << 20) for _ in range(8)]
libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info
print(libc.mallinfo2().size_4 > 8 * (4 << 20))
"""


def is_mapped(first: str) -> str:
    """Return whether large pieces are mappings of their own after a larger one was freed."""
    command = [sys.executable, "-c", PROGRAM.format(first=first)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries choose for themselves")
def test_large_pieces_of_memory_are_mapped_also_after_one_was_freed():
    assert is_mapped("") == "False"

    assert is_mapped("progress.keep_large_pieces_apart()") == "True"
