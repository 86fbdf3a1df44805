"""Asks running containers which GPUs they can see: each once, soon after its start, beside its command.

A command of ours in the container is asked, as its processes see what those of the job do. What was not asked in time
stays unknown: later the container may have no memory to spare.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta

import structlog

from compute.engine.ports import CommandOutput
from compute.engine.visible_gpus import SCRIPT, VisibleGpus, read_answer
from compute.errors import CommandRefused, JobNotRunning
from core import clock
from core.errors import PlatformError

log = structlog.get_logger(__name__)

COMMAND = ("sh", "-c", SCRIPT)
"""What is run in a container."""
_SOON = timedelta(minutes=1)
_AT_ONCE, _AT_ONCE_OF_JOB = 8, 4
_MOST_BYTES = 1 << 18
_TIMEOUT_S = 60.0
# One that has not answered by then is waited for beside those that are asked next.
_SLOT_S = 5.0


class ContainerGpuChecks:
    """Remembers what containers have answered, by ids that are never used again. Used from many threads."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._answers: dict[str, VisibleGpus | None] = {}
        self._slots = _Slots()

    def find(self, container: str) -> VisibleGpus | None:
        """Return what a container has answered; None: nothing yet, or nothing that tells it."""
        return self._answers.get(container)

    def check(
        self, container: str, job: str, started_at: datetime, run: Callable[[], Iterator[CommandOutput]]
    ) -> VisibleGpus | None:
        """Return the same of one of a job that runs; `run` runs COMMAND in it, and is called on a thread, if at all."""
        if container not in self._answers and _is_soon(started_at):
            self._answers[container] = None
            threading.Thread(
                target=self._ask, args=(container, job, started_at, run), name=f"check GPUs of {container}", daemon=True
            ).start()
        return self._answers.get(container)

    def keep(self, containers: Collection[str]) -> None:
        """Forget all others."""
        for gone in self._answers.keys() - containers:
            self._answers.pop(gone, None)

    def _ask(self, container: str, job: str, started_at: datetime, run: Callable[[], Iterator[CommandOutput]]) -> None:
        try:
            with self._slots.take(job) as give_back:
                # Others may have taken long to answer.
                answer = read_answer(_read(run(), give_back)) if _is_soon(started_at) else None
        except (JobNotRunning, CommandRefused) as error:  # it has ended, or its image has no shell
            log.info("gpus.not_checked", container=container, error=error.message)
        except PlatformError as error:
            log.info("gpus.unanswered", container=container, error=error.message)
            self._answers.pop(container, None)  # asked again while it is soon
        else:
            if container in self._answers:
                self._answers[container] = answer


def _is_soon(started_at: datetime) -> bool:
    return clock.now() - started_at < _SOON


class _Slots:
    """Few containers are asked at once, and fewer of one job, so that others do not wait for a gang that is slow."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()
        self._changed = threading.Condition()

    @contextmanager
    def take(self, job: str) -> Iterator[Callable[[], None]]:
        """Hold a slot until the block ends, or what is yielded is called."""
        with self._changed:
            self._changed.wait_for(lambda: self._taken.total() < _AT_ONCE and self._taken[job] < _AT_ONCE_OF_JOB)
            self._taken[job] += 1
        with ExitStack() as slot:
            slot.callback(self._give_back, job)
            yield slot.close

    def _give_back(self, job: str) -> None:
        with self._changed:
            self._taken -= Counter([job])  # without those of which none is left
            self._changed.notify_all()


def _read(pieces: Iterator[CommandOutput], give_slot_back: Callable[[], None]) -> str:
    """Return what a command printed; what is too long, its errors included, or takes too long, is cut."""
    slow_at = clock.monotonic() + _SLOT_S
    give_up_at = clock.monotonic() + _TIMEOUT_S
    text, size_bytes = b"", 0
    for piece in pieces:
        if piece == CommandOutput() or clock.monotonic() > slow_at:  # silence for some seconds is an empty piece
            give_slot_back()
        size_bytes += len(piece.data)
        text += b"" if piece.is_error else piece.data
        if size_bytes > _MOST_BYTES or clock.monotonic() > give_up_at:
            break
    return text.decode(errors="replace")
