"""Runs a Python program of the product and counts what its process asks of the database, for a benchmark to read.

    BENCH_COUNTS=FOLDER python -m benchmarks.counted (manage.py | -m MODULE) ARGUMENTS

Counted are SQL statements, but those that begin or end a transaction, and the steps of SQLite's machine, in hundreds.
The counts are numbers of eight bytes in FOLDER/PID, which other processes may read at any time.
"""

import mmap
import os
import runpy
import struct
import sys
import threading
from pathlib import Path

from django.db.backends.signals import connection_created

_COUNTS = struct.Struct("<qq")
STEPS_AT_ONCE = 100
_guard = threading.Lock()
_counts: dict[int, mmap.mmap] = {}


def read_counts(folder: Path) -> tuple[int, int]:
    """Return the statements of all processes so far, and the steps of SQLite's machine."""
    counts = [_COUNTS.unpack(path.read_bytes()) for path in folder.iterdir()]
    return sum(statements for statements, _ in counts), sum(steps for _, steps in counts)


def _count_of_this_process() -> mmap.mmap:
    pid = os.getpid()
    if pid not in _counts:  # a forked child has a file of its own
        path = Path(os.environ["BENCH_COUNTS"]) / str(pid)
        path.write_bytes(bytes(_COUNTS.size))
        with path.open("r+b") as file:
            _counts[pid] = mmap.mmap(file.fileno(), _COUNTS.size)
    return _counts[pid]


def _add(statements: int, steps: int) -> None:
    with _guard:
        count = _count_of_this_process()
        before = _COUNTS.unpack_from(count)
        _COUNTS.pack_into(count, 0, before[0] + statements, before[1] + steps)


def _note(execute, sql, params, many, context):
    if not sql.startswith("BEGIN"):  # only on SQLite is that a statement of Django's
        _add(1, 0)
    return execute(sql, params, many, context)


def _watch(connection, **_) -> None:
    if _note not in connection.execute_wrappers:
        connection.execute_wrappers.append(_note)
    if connection.vendor == "sqlite":
        connection.connection.set_progress_handler(lambda: _add(0, STEPS_AT_ONCE), STEPS_AT_ONCE)


if __name__ == "__main__":
    connection_created.connect(_watch, weak=False)
    first, *others = sys.argv[1:]
    if first == "-m":
        sys.argv = others
        runpy.run_module(others[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [first, *others]
        runpy.run_path(first, run_name="__main__")
