"""Threads of this process, a queue for each lane: where a leader's ticks run, and the embedded product's doorbell."""

import threading
from collections import OrderedDict

import structlog

from core import connections
from core.doorbell import Lane, Task, run

log = structlog.get_logger(__name__)

_THREADS = {Lane.ADVANCE: 2, Lane.CACHE: 2, Lane.WATCH: 1, Lane.NOTIFY: 1, Lane.TIDY: 1}

Ring = tuple[str, tuple[tuple[str, str], ...]]


class LocalDoorbell:
    """Runs each ring once on a thread of its lane. A ring that already waits is not queued twice.

    A ring for work that is running is kept and run after it, never beside it: so no news is lost between the moment
    a handler looked and the moment it ends.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._waiting: dict[Lane, OrderedDict[Ring, None]] = {lane: OrderedDict() for lane in Lane}
        self._running: set[Ring] = set()
        self._is_stopping = False
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the threads."""
        for lane, count in _THREADS.items():
            for number in range(count):
                thread = threading.Thread(target=self._serve, args=(lane,), name=f"{lane}-{number}", daemon=True)
                thread.start()
                self._threads.append(thread)

    def stop(self, *, timeout_s: float = 10) -> None:
        """Let running handlers end, drop what waits (the next tick finds it) and join the threads."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify_all()
        for thread in self._threads:
            thread.join(timeout_s)

    def ring(self, task: Task, ids: dict[str, str]) -> None:
        """Carry a ring to our own threads."""
        self.queue(task, ids)

    def queue(self, task: Task, ids: dict[str, str]) -> None:
        """Queue a task unless an equal ring waits."""
        with self._condition:
            self._waiting[task.lane][(task.name, tuple(sorted(ids.items())))] = None
            self._condition.notify_all()

    def _take(self, lane: Lane) -> Ring | None:
        with self._condition:
            while not self._is_stopping:
                for ring in self._waiting[lane]:
                    if ring not in self._running:
                        del self._waiting[lane][ring]
                        self._running.add(ring)
                        return ring
                self._condition.wait()
        return None

    def _serve(self, lane: Lane) -> None:
        while (ring := self._take(lane)) is not None:
            try:
                _answer(ring)
            except Exception:
                log.exception("task.failed", task=ring[0], **dict(ring[1]))
            finally:
                with self._condition:
                    self._running.discard(ring)
                    self._condition.notify_all()
        connections.close_all()


def _answer(ring: Ring) -> None:
    name, ids = ring
    connections.keep_usable()
    try:
        run(name, dict(ids))
    finally:
        connections.keep_usable()
