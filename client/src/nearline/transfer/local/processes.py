"""Work that this process shares with others. What another one does not do, for any reason, is done in this one.

The others are new interpreters: nothing is forked, no lock is shared, and what they need travels pickled through pipes.
"""

import gc
import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import Thread
from typing import TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")
# To begin a process takes as long as comparing some 30,000 files.
_FILES_PER_PROCESS = 50_000
_MOST = 8


def count_useful(files: int) -> int:
    """Return how many processes, this one among them, are worth their start for work on so many files."""
    can_start = bool(sys.executable) and not hasattr(sys, "frozen")
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cpus, _MOST, files // _FILES_PER_PROCESS)) if can_start else 1


def share(tasks: Sequence[_T], here: Callable[[_T], _R], elsewhere: Callable[[_T], _R], processes: int) -> list[_R]:
    """Return what `here` returns for every task, in their order.

    So many processes take the tasks one by one. In the others `elsewhere` does them: it is pickled, returns the same,
    and may raise anything to leave a task to this process.
    """
    waiting = deque(enumerate(tasks))
    results: dict[int, _R] = {}
    threads = [
        Thread(target=_lead, args=(elsewhere, waiting, results), name="share", daemon=True)
        for _ in range(processes - 1)
    ]
    for thread in threads:
        thread.start()
    try:
        for number, task in _take(waiting):
            results[number] = here(task)
    finally:
        waiting.clear()
        for thread in threads:
            thread.join()
    return [results[number] if number in results else here(task) for number, task in enumerate(tasks)]


def _lead(work: Callable[[_T], _R], waiting: deque[tuple[int, _T]], results: dict[int, _R]) -> None:
    """Start a process and hand it tasks until there are none, or until it ends."""
    # The folder one is in may be any dataset, so nothing is imported from there.
    command = [sys.executable, "-P", "-c", f"from {__name__} import serve; serve()"]
    with (
        suppress(OSError, EOFError, pickle.UnpicklingError),
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process,
    ):
        assert process.stdin and process.stdout  # noqa: S101, PT018 (this tells the type checker)
        process.stdin.write(pickle.dumps(work))
        for number, task in _take(waiting):
            process.stdin.write(pickle.dumps(task))
            process.stdin.flush()
            results[number] = pickle.load(process.stdout)  # noqa: S301 (our own process wrote it)


def _take(waiting: deque[_T]) -> Iterator[_T]:
    with suppress(IndexError):
        while True:
            yield waiting.popleft()


def serve() -> None:
    """Do the work that comes first on the standard input to all that follows there. An error ends this process."""
    # What comes by the million never refers to itself.
    gc.disable()
    tasks, results = sys.stdin.buffer, sys.stdout.buffer
    work = pickle.load(tasks)  # noqa: S301 (the process that started this one wrote it)
    with suppress(EOFError):
        while True:
            results.write(pickle.dumps(work(pickle.load(tasks))))  # noqa: S301
            results.flush()
