"""Asks running containers which GPUs they can see: each once, soon after its start, beside its command.

A command of ours in the container is asked, as its processes see what those of the job do. What was not asked in time
stays unknown: later the container may have no memory to spare.
"""

import threading
from collections.abc import Callable, Collection, Iterator
from datetime import datetime, timedelta

import structlog

from compute.engine.gpu_sight import LOOK, GpuSight, read_look
from compute.engine.ports import CommandOutput
from compute.errors import CommandRefused, JobNotRunning
from core import clock
from core.errors import PlatformError

log = structlog.get_logger(__name__)

COMMAND = ("sh", "-c", LOOK)
"""What is run in a container."""
_SOON = timedelta(minutes=1)
_AT_ONCE = 8
_MOST_BYTES = 1 << 18
_PATIENCE_S = 60.0


class GpuLooks:
    """Remembers what containers have answered, by ids that are never used again. Used from many threads."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._sights: dict[str, GpuSight | None] = {}
        self._slots = threading.BoundedSemaphore(_AT_ONCE)

    def find(self, container: str) -> GpuSight | None:
        """Return what a container has answered; None: nothing yet, or nothing that tells it."""
        return self._sights.get(container)

    def look(self, container: str, started_at: datetime, run: Callable[[], Iterator[CommandOutput]]) -> GpuSight | None:
        """Return the same of one that runs; `run` runs COMMAND in it, and is called on a thread, if at all."""
        if container not in self._sights and _is_soon(started_at):
            self._sights[container] = None
            threading.Thread(
                target=self._ask, args=(container, started_at, run), name=f"look {container}", daemon=True
            ).start()
        return self._sights.get(container)

    def keep(self, containers: Collection[str]) -> None:
        """Forget all others."""
        for gone in self._sights.keys() - containers:
            self._sights.pop(gone, None)

    def _ask(self, container: str, started_at: datetime, run: Callable[[], Iterator[CommandOutput]]) -> None:
        try:
            with self._slots:
                # Others may have taken long to answer.
                sight = read_look(_read(run())) if _is_soon(started_at) else None
        except (JobNotRunning, CommandRefused) as error:  # it has ended, or its image has no shell
            log.info("gpus.not_looked_at", container=container, error=error.message)
        except PlatformError as error:
            log.info("gpus.unanswered", container=container, error=error.message)
            self._sights.pop(container, None)  # asked again while it is soon
        else:
            if container in self._sights:
                self._sights[container] = sight


def _is_soon(started_at: datetime) -> bool:
    return clock.now() - started_at < _SOON


def _read(pieces: Iterator[CommandOutput]) -> str:
    """Return what a command printed; what is too long, its errors included, or takes too long, is cut."""
    give_up_at = clock.monotonic() + _PATIENCE_S
    text, size_bytes = b"", 0
    for piece in pieces:
        size_bytes += len(piece.data)
        text += b"" if piece.is_error else piece.data
        if size_bytes > _MOST_BYTES or clock.monotonic() > give_up_at:
            break
    return text.decode(errors="replace")
