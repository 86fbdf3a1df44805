"""Threads of this process, some for each queue: they run the leader's periodic tasks, and all tasks when embedded."""

import threading
from collections import OrderedDict

import structlog

from core import connections
from core.tasks import Queue, Task, run

log = structlog.get_logger(__name__)

_THREADS = {Queue.ADVANCE: 2, Queue.CACHE: 2, Queue.WATCH: 1, Queue.NOTIFY: 3, Queue.TIDY: 1}

Call = tuple[str, tuple[tuple[str, str], ...]]


class LocalQueue:
    """Runs each call once on a thread of its queue. A call that already waits is not queued twice.

    A call for work that is running is run after it, never beside it: so no change is missed between the moment a
    handler read the rows and the moment it ends.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._waiting: dict[Queue, OrderedDict[Call, None]] = {queue: OrderedDict() for queue in Queue}
        self._running: set[Call] = set()
        self._is_stopping = False
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the threads."""
        for queue, count in _THREADS.items():
            for number in range(count):
                thread = threading.Thread(target=self._serve, args=(queue,), name=f"{queue}-{number}", daemon=True)
                thread.start()
                self._threads.append(thread)

    def stop(self, *, timeout_s: float = 10) -> None:
        """Let running handlers end, drop what waits (a periodic run finds it again) and join the threads."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify_all()
        for thread in self._threads:
            thread.join(timeout_s)

    def enqueue(self, task: Task, ids: dict[str, str]) -> None:
        """Carry a message to our own threads."""
        self.put(task, ids)

    def put(self, task: Task, ids: dict[str, str]) -> None:
        """Queue a call unless an equal one waits."""
        with self._condition:
            self._waiting[task.queue][(task.name, tuple(sorted(ids.items())))] = None
            self._condition.notify_all()

    def _take(self, queue: Queue) -> Call | None:
        with self._condition:
            while not self._is_stopping:
                for call in self._waiting[queue]:
                    if call not in self._running:
                        del self._waiting[queue][call]
                        self._running.add(call)
                        return call
                self._condition.wait()
        return None

    def _serve(self, queue: Queue) -> None:
        while (call := self._take(queue)) is not None:
            try:
                _run(call)
            except Exception:
                log.exception("task.failed", task=call[0], **dict(call[1]))
            finally:
                with self._condition:
                    self._running.discard(call)
                    self._condition.notify_all()
        connections.close_all()


def _run(call: Call) -> None:
    name, ids = call
    connections.keep_usable()
    try:
        run(name, dict(ids))
    finally:
        connections.keep_usable()
