"""What people are told while they wait.

How far a transfer is, in files and bytes, with its rate and what is left: a bar on a terminal, else lines. And that a
server or a store is away: once, and again every half minute.

While progress is shown, memory is kept from falling to pieces, so that a sync of any length takes the same.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nearline.cli import formats
from nearline.cli.output import Output, say

if TYPE_CHECKING:
    from nearline.content.retry import Waiting
    from nearline.transfer.progress import OnProgress, Progress

import threading
from dataclasses import field

from nearline.cli.output import printable

_LINE_EVERY_S = 5.0
# M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# What is free at the end of the heap stays there up to this: it is taken again soon.
_MOST_FREE_BYTES = 256 << 20
_OWN_MAPPING_BYTES = 4 << 20
# What is over sooner need not be told.
_UNTOLD_S = 3.0
_TOLD_EVERY_S = 30.0


@contextmanager
def progress_of(out: Output) -> "Iterator[OnProgress]":
    """Give out a callback that shows progress on stderr in the way that suits it; nothing when quiet."""
    # Whatever shows its progress may move much.
    keep_large_pieces_apart()
    if out.is_quiet:
        yield lambda _progress: None
    elif sys.stderr.isatty():
        with bars() as show:
            yield show
    else:
        yield Lines()


@dataclass
class Lines:
    """A line every few seconds, for logs and pipes."""

    write: Callable[[str], None] = say
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._next_at = self.clock() + _LINE_EVERY_S

    def __call__(self, progress: "Progress") -> None:
        """Write a line when the last one is old enough."""
        now = self.clock()
        if now >= self._next_at:
            self._next_at = now + _LINE_EVERY_S
            self.write(describe(progress))


@contextmanager
def bars() -> "Iterator[OnProgress]":
    """Draw a bar that moves, for people in front of a terminal; it is gone at the end."""
    from rich.console import Console  # noqa: PLC0415 (slow to load, and only a terminal needs it)
    from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn  # noqa: PLC0415
    from rich.progress import Progress as Bars  # noqa: PLC0415

    columns = (SpinnerColumn(), BarColumn(24), TaskProgressColumn(), TextColumn("{task.description}", markup=False))
    drawn = Bars(*columns, console=Console(stderr=True), transient=True)
    task = drawn.add_task("", total=None)

    def show(progress: "Progress") -> None:
        done, total = (
            (progress.bytes_done, progress.bytes_total)
            if progress.bytes_total
            else (progress.files_done, progress.files_total)
        )
        drawn.start()
        drawn.update(task, description=describe(progress), completed=done, total=total)

    try:
        yield show
    finally:
        drawn.stop()


def describe(progress: "Progress") -> str:
    """Write how far it is: `Uploading 12 of 40 files, 3.2 MB of 9.9 MB, 1.1 MB/s, 6 s left`."""
    files_total, bytes_total = progress.files_total, progress.bytes_total
    phase = progress.phase[:1].upper() + progress.phase[1:]
    parts = [f"{phase} {_of(f'{progress.files_done:,}', None if files_total is None else f'{files_total:,}')} files"]
    if progress.bytes_done or bytes_total:
        parts.append(_of(formats.size(progress.bytes_done), None if bytes_total is None else formats.size(bytes_total)))
    if progress.rate_bytes_s:
        parts.append(f"{formats.size(progress.rate_bytes_s)}/s")
    if progress.eta_s is not None:
        parts.append(f"{formats.duration(progress.eta_s)} left")
    return ", ".join(parts)


def _of(done: str, total: str | None) -> str:
    return done if total is None else f"{done} of {total}"


@dataclass
class OutageNotice:
    """Tells that a server or a store is away. Takes note of every wait, from any thread."""

    out: Output
    clock: Callable[[], float] = time.monotonic
    _next_at: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, waiting: "Waiting") -> None:
        """Tell the reason, and for how long it is tried."""
        with self._lock:
            now = self.clock()
            if waiting.waited_s < _UNTOLD_S or now < self._next_at:
                return
            self._next_at = now + _TOLD_EVERY_S
        left = formats.duration(waiting.left_s)
        self.out.warn(f"{printable(waiting.reason)} Trying again, for at most {left} more.")


def keep_large_pieces_apart() -> None:
    """Let each piece of 4 MiB or more, as are most chunks, be a mapping of its own, which goes when it is freed.

    By default glibc stops doing so for pieces of a size once one was freed. What stays then lies between large pieces
    that went, and their memory is lost: a third of what a large first sync takes. Smaller pieces stay together: to map
    each of them anew takes a third more CPU. Other C libraries have no such call.
    """
    import ctypes  # noqa: PLC0415 (only what moves data needs it)

    with suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _OWN_MAPPING_BYTES)
        mallopt(_TRIM_THRESHOLD, _MOST_FREE_BYTES)
