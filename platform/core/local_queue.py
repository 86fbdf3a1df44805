"""Threads of this process, some for each queue: they run the leader's periodic tasks, and all tasks when embedded."""

import threading
from collections import OrderedDict

import structlog

from core import connections, tasks
from core.outages import log_failure
from core.tasks import Queue, Task

log = structlog.get_logger(__name__)

_THREADS = {Queue.ADVANCE: 2, Queue.CACHE: 2, Queue.WATCH: 1, Queue.NOTIFY: 3, Queue.TIDY: 1}

Call = tuple[str, tuple[tuple[str, str], ...]]


class LocalQueue:
    """Runs each call once on a thread of its queue. A call that already waits is not queued twice.

    A call for work that is running is run after it, never beside it: so no change is missed between the moment a
    handler read the rows and the moment it ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # One for each queue: a call wakes one thread that can run it, and no other.
        self._conditions = {queue: threading.Condition(self._lock) for queue in Queue}
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
        with self._lock:
            self._is_stopping = True
            for condition in self._conditions.values():
                condition.notify_all()
        for thread in self._threads:
            thread.join(timeout_s)

    def enqueue(self, task: Task, ids: dict[str, str]) -> None:
        """Carry a message to our own threads."""
        self.put(task, ids)

    def put(self, task: Task, ids: dict[str, str]) -> None:
        """Queue a call unless an equal one waits."""
        with self._lock:
            self._waiting[task.queue][_call_of(task, ids)] = None
            self._conditions[task.queue].notify()

    def run_here(self, task: Task, ids: dict[str, str]) -> None:
        """Run a call in the calling thread, unless an equal one runs: then a thread runs it after that one."""
        call = _call_of(task, ids)
        with self._lock:
            if call in self._running:
                self._waiting[task.queue][call] = None
                return
            self._waiting[task.queue].pop(call, None)
            self._running.add(call)
        self._run(task.queue, call)

    def _take(self, queue: Queue) -> Call | None:
        with self._lock:
            while not self._is_stopping:
                for call in self._waiting[queue]:
                    if call not in self._running:
                        del self._waiting[queue][call]
                        self._running.add(call)
                        return call
                self._conditions[queue].wait()
        return None

    def _serve(self, queue: Queue) -> None:
        while (call := self._take(queue)) is not None:
            with tasks.hand_over():
                self._run(queue, call)
            connections.keep_usable()
        connections.close_all()

    def _run(self, queue: Queue, call: Call) -> None:
        name, ids = call
        try:
            tasks.run(name, dict(ids))
        except Exception as error:  # noqa: BLE001 (the thread goes on with other work, whatever it was)
            log_failure(log, "task.failed", error, task=name, **dict(ids))
        finally:
            with self._lock:
                self._running.discard(call)
                if call in self._waiting[queue]:
                    self._conditions[queue].notify()


def _call_of(task: Task, ids: dict[str, str]) -> Call:
    return task.name, tuple(sorted(ids.items()))
