"""Runs a Python program of the product and counts the SQL statements of its process, for a benchmark to read.

    BENCH_COUNTS=FOLDER python -m benchmarks.counted (manage.py | -m MODULE) ARGUMENTS

The count is a number of eight bytes in FOLDER/PID, which other processes may read at any time.
"""

import mmap
import os
import runpy
import struct
import sys
import threading
from pathlib import Path

from django.db.backends.signals import connection_created

_SIZE = 8
_guard = threading.Lock()
_counts: dict[int, mmap.mmap] = {}


def read_counts(folder: Path) -> int:
    """Return the statements of all processes so far."""
    return sum(struct.unpack("<q", path.read_bytes())[0] for path in folder.iterdir())


def _count_of_this_process() -> mmap.mmap:
    pid = os.getpid()
    if pid not in _counts:  # a forked child has a file of its own
        path = Path(os.environ["BENCH_COUNTS"]) / str(pid)
        path.write_bytes(bytes(_SIZE))
        with path.open("r+b") as file:
            _counts[pid] = mmap.mmap(file.fileno(), _SIZE)
    return _counts[pid]


def _note(execute, sql, params, many, context):
    with _guard:
        count = _count_of_this_process()
        struct.pack_into("<q", count, 0, struct.unpack_from("<q", count)[0] + 1)
    return execute(sql, params, many, context)


def _watch(connection, **_) -> None:
    if _note not in connection.execute_wrappers:
        connection.execute_wrappers.append(_note)


if __name__ == "__main__":
    connection_created.connect(_watch, weak=False)
    first, *others = sys.argv[1:]
    if first == "-m":
        sys.argv = others
        runpy.run_module(others[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [first, *others]
        runpy.run_path(first, run_name="__main__")
