"""How far a transfer is, in files and bytes, with its rate and what is left: a bar on a terminal, else lines."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self

from nearline.cli import formats
from nearline.cli.output import Output, say

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

_LINE_EVERY_S = 5.0
_FORGETTING = 0.3
Amount = tuple[int, int | None]


class Progress(Protocol):
    """Something that can be told how far a transfer is. Each amount is what is done and what is to do."""

    def show(self, phase: str, *, files: Amount, size_bytes: Amount) -> None:
        """Take note of how far it is; cheap enough for every file."""
        ...


@contextmanager
def progress_of(out: Output) -> Iterator[Progress]:
    """Show progress on stderr in the way that suits it; in none when quiet."""
    if out.is_quiet:
        yield Silent()
    elif sys.stderr.isatty():
        with Bar() as bar:
            yield bar
    else:
        yield Lines()


class Silent:
    """Shows nothing."""

    def show(self, phase: str, *, files: Amount, size_bytes: Amount) -> None:
        """Do nothing."""


@dataclass
class Rate:
    """Bytes per second, as of late: old speeds are forgotten."""

    clock: Callable[[], float] = time.monotonic
    value: float | None = None
    _at: float | None = None
    _done: int = 0

    def update(self, done: int) -> float | None:
        """Take note of the bytes done so far and return the rate; None while it is unknown."""
        now = self.clock()
        if self._at is None or done < self._done:
            self._at, self._done = now, done
        elif now - self._at >= 0.5:  # noqa: PLR2004 (seconds; shorter ones are too noisy)
            recent = (done - self._done) / (now - self._at)
            self.value = recent if self.value is None else _FORGETTING * recent + (1 - _FORGETTING) * self.value
            self._at, self._done = now, done
        return self.value


@dataclass
class Lines:
    """A line every few seconds, for logs and pipes."""

    write: Callable[[str], None] = say
    clock: Callable[[], float] = time.monotonic
    _rate: Rate = field(default_factory=Rate)
    _phase: str = ""
    _next_at: float = 0.0

    def __post_init__(self) -> None:
        self._rate.clock = self.clock
        self._next_at = self.clock() + _LINE_EVERY_S

    def show(self, phase: str, *, files: Amount, size_bytes: Amount) -> None:
        """Write a line when the last one is old enough."""
        if phase != self._phase:
            self._phase, self._rate = phase, Rate(clock=self.clock)
        rate = self._rate.update(size_bytes[0])
        now = self.clock()
        if now >= self._next_at:
            self._next_at = now + _LINE_EVERY_S
            self.write(describe(phase, files=files, size_bytes=size_bytes, rate=rate))


class Bar:
    """A bar that moves, for people in front of a terminal."""

    def __init__(self) -> None:
        self._bars: Bars | None = None
        self._task: TaskID | None = None
        self._rate = Rate()
        self._phase = ""
        self._next_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def show(self, phase: str, *, files: Amount, size_bytes: Amount) -> None:
        """Move the bar, at most ten times a second."""
        if phase != self._phase:
            self._phase, self._rate, self._next_at = phase, Rate(), 0.0
        rate = self._rate.update(size_bytes[0])
        now = time.monotonic()
        if now < self._next_at:
            return
        self._next_at = now + 0.1
        text = describe(phase, files=files, size_bytes=size_bytes, rate=rate)
        done, total = size_bytes
        bars = self._bars or self._start()
        if self._task is not None:
            bars.update(self._task, description=text, completed=done, total=total)

    def _start(self) -> "Bars":
        from rich.console import Console  # noqa: PLC0415 (slow to load, and only a terminal needs it)
        from rich.markup import escape  # noqa: PLC0415
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn  # noqa: PLC0415

        columns = (BarColumn(bar_width=24), TaskProgressColumn(), TextColumn("{task.description}", markup=False))
        self._bars = Progress(*columns, console=Console(stderr=True), transient=True)
        self._bars.start()
        self._task = self._bars.add_task(escape(self._phase), total=None)
        return self._bars


def describe(phase: str, *, files: Amount, size_bytes: Amount, rate: float | None) -> str:
    """Write how far it is: `Uploading 12 of 40 files, 3.2 MB of 9.9 MB, 1.1 MB/s, 6 s left`."""
    parts = [f"{phase} {_of(f'{files[0]:,}', f'{files[1]:,}' if files[1] is not None else None)} files"]
    if size_bytes[1]:
        parts.append(_of(formats.size(size_bytes[0]), formats.size(size_bytes[1])))
    elif size_bytes[0]:
        parts.append(formats.size(size_bytes[0]))
    if rate:
        parts.append(f"{formats.size(rate)}/s")
        if size_bytes[1]:
            parts.append(f"{formats.duration(max(0, size_bytes[1] - size_bytes[0]) / rate)} left")
    return ", ".join(parts)


def _of(done: str, total: str | None) -> str:
    return done if total is None else f"{done} of {total}"
