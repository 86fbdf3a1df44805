"""Background tasks: registered by name, enqueued by name, run by a worker or by the leader's own threads.

A message says "look again", never "do this": the database row says what there is to do. So a message may be lost,
delivered twice or reordered without harm, and every handler can be repeated. A handler's periodic run in the leader
finds the work of a lost message.

The tasks of a hand-over (a job has ended: advance its run, place and start the next job) are not carried by messages
where one process can do all of them: there a thread runs each of them after the one that enqueued it (`hand_over`).
"""

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Protocol, TypeVar

import structlog
from django.db import transaction
from django.db.models import QuerySet
from django.dispatch import Signal
from django.utils.module_loading import import_string
from prometheus_client import Counter, Histogram

from core import clock

R = TypeVar("R")

log = structlog.get_logger(__name__)

TASK_SECONDS = Histogram("nearline_task_seconds", "Time that one background task took", ["task"])
TASK_FAILURES = Counter("nearline_task_failures_total", "Background tasks that ended with an error", ["task"])


class Queue(StrEnum):
    """Tasks of one queue may wait for each other; queues never do (a slow hydration cannot starve `advance`).

    TIDY is for work that may take hours and that nobody waits for: requests of people never wait behind it.
    """

    ADVANCE = "advance"
    CACHE = "cache"
    WATCH = "watch"
    NOTIFY = "notify"
    TIDY = "tidy"


_RECENT_S = 1.0
_ANYWAY_S = 600.0
Handler = Callable[..., None]
FindWork = Callable[[], "Sequence[QuerySet[Any]]"]


@dataclass(frozen=True)
class Task:
    """A registered task. `every_s` is the period of its runs in the leader in seconds; None means it has none.

    `on` names the events (`app.signal`) after which it is enqueued, without ids. `find_work` returns queries of the
    rows that a periodic run would do something about; None: only the run itself can tell. They are made once, and
    again after `ask_anew`: from time to time only moments told from `clock.now()` differ. Where these queries find
    nothing, the task is run anyway after `anyway_s` seconds, so that no fault in them is for ever. `handover` is the
    place of the task among those of a hand-over from job to job (see `hand_over`); None: it is not one of them. One
    that runs `on_each_host` works on rows of a host (see `core.hosts`), so it runs there also where the leader is
    elsewhere.
    """

    name: str
    queue: Queue
    handler: Handler
    every_s: float | None
    on: tuple[str, ...] = ()
    find_work: FindWork | None = None
    anyway_s: float = _ANYWAY_S
    handover: int | None = None
    on_each_host: bool = False


class TaskQueue(Protocol):
    """Carries a message to a worker. May lose, double or reorder messages; never blocks for long."""

    def enqueue(self, task: Task, ids: dict[str, str]) -> None:
        """Ask for `task` to be run with `ids` as keyword arguments, soon, somewhere."""


class TaskThreads(TaskQueue, Protocol):
    """Threads of this process that run tasks. The leader has them; what they run never depends on a message."""

    def put(self, task: Task, ids: dict[str, str]) -> None:
        """Have `task` run here, soon, unless an equal call waits already."""

    def run_here(self, task: Task, ids: dict[str, str]) -> None:
        """Run `task` in the calling thread; while an equal call runs, have it run here after that one instead."""


class NullQueue:
    """Carries nothing: the next periodic run finds the work. For tests and one-off commands."""

    def enqueue(self, task: Task, ids: dict[str, str]) -> None:
        """Drop the message."""


_tasks: dict[str, Task] = {}
_queue: TaskQueue = NullQueue()
_threads: TaskThreads | None = None
_questions = 0


class _Current(threading.local):
    """What this thread is about: the calls of its hand-over, and what the running task has read once."""

    calls: dict[tuple[str, tuple[tuple[str, str], ...]], None] | None = None
    afterwards: list[Callable[[], None]] | None = None
    memo: dict[str, Any] | None = None
    recent: dict[Hashable, Any] | None = None
    recent_ends_at: float = 0.0


_current = _Current()


def task(
    name: str,
    *,
    queue: Queue = Queue.ADVANCE,
    every_s: float | None = None,
    on: Sequence[str] = (),
    find_work: FindWork | None = None,
    anyway_s: float = _ANYWAY_S,
    handover: int | None = None,
    on_each_host: bool = False,
) -> Callable[[Handler], Handler]:
    """Register a function under `name`. A periodic run and an event of `on` call it without ids.

    `on` holds events as `app.signal`, such as `scheduler.workload_placed`: a signal of that app's `signals` module.
    With `find_work` the leader leaves periodic runs out while none of these queries has a row (see `config.leader`).
    """

    def register(handler: Handler) -> Handler:
        _tasks[name] = Task(name, queue, handler, every_s, tuple(on), find_work, anyway_s, handover, on_each_host)
        for event in on:
            _signal_of(event).connect(lambda **_: enqueue(name), weak=False, dispatch_uid=name)
        return handler

    return register


def registered() -> dict[str, Task]:
    """Return every task by name."""
    return dict(_tasks)


def questions() -> int:
    """Return a number that is another one once `find_work` of any task returns other queries."""
    return _questions


def ask_anew() -> None:
    """Have `find_work` be called again, because it depends on what has changed in this process."""
    global _questions  # noqa: PLW0603 (a process has one set of tasks)
    _questions += 1


def run(name: str, ids: dict[str, str]) -> None:
    """Run a task here and now."""
    failures, seconds = _meters_of(name)
    with _remembering(), failures.count_exceptions(), seconds.time():
        _tasks[name].handler(**ids)


@cache
def _meters_of(name: str) -> tuple[Counter, Histogram]:
    return TASK_FAILURES.labels(name), TASK_SECONDS.labels(name)


def memo() -> dict[str, Any] | None:
    """Return what the task that runs in this thread has read once and may use again; None outside of tasks."""
    return _current.memo


def recently(key: Hashable, read: Callable[[], R]) -> R:
    """Return what `read` returns; in a hand-over, what it returned for this key in one of the last second.

    For what people set up, which a plan may see a moment late: many steps may follow each other in that second.
    """
    if _current.calls is None:
        return read()
    now = clock.monotonic()
    if _current.recent is None or now >= _current.recent_ends_at:
        _current.recent, _current.recent_ends_at = {}, now + _RECENT_S
    if key not in _current.recent:
        _current.recent[key] = read()
    memo: R = _current.recent[key]
    return memo


def read_anew(key: Hashable | None = None) -> None:
    """Have this thread read anew what it has read recently, because that has changed; None: all of it."""
    if key is None:
        _current.recent = None
    elif _current.recent is not None:
        _current.recent.pop(key, None)


def is_handing_over() -> bool:
    """Whether a thread of this process runs the tasks of a hand-over that this thread enqueues."""
    return _current.calls is not None


def after_hand_over(action: Callable[[], None]) -> None:
    """Do what nobody waits for when the hand-over of this thread is done; at once outside of one.

    Where it fails, or the process dies before, somebody else does it later.
    """
    if _current.afterwards is None:
        action()
    else:
        _current.afterwards.append(action)


@contextmanager
def _remembering() -> Iterator[None]:
    before = _current.memo
    _current.memo = {} if before is None else before
    try:
        yield
    finally:
        _current.memo = before


@contextmanager
def hand_over() -> Iterator[None]:
    """Run the tasks of a hand-over that this block enqueues at its end, in this thread, and so on with what they do.

    A process without threads of its own enqueues them as ever. What an error keeps from being run here is enqueued.
    """
    if _threads is None or _current.calls is not None:
        yield
        return
    calls = _current.calls = {}
    afterwards = _current.afterwards = []
    try:
        with _remembering():
            yield
            while calls:
                call = min(calls, key=lambda call: (_tasks[call[0]].handover, call[1]))
                del calls[call]
                _threads.run_here(_tasks[call[0]], dict(call[1]))
            for action in afterwards:
                try:
                    action()
                except Exception:  # the thread goes on with other work, whatever it was
                    log.exception("hand_over.afterwards_failed")
    finally:
        _current.calls = _current.afterwards = None
        for name, ids in calls:
            enqueue(name, **dict(ids))


def install(queue: TaskQueue) -> TaskQueue:
    """Choose the queue of this process and return the one before it. Called by `config.wiring` and by tests."""
    global _queue
    before, _queue = _queue, queue
    return before


def install_threads(threads: TaskThreads | None) -> None:
    """Set the threads of this process that run what its periodic runs find; None: it has none. For the leader."""
    global _threads  # noqa: PLW0603 (a process has one set of threads, as it has one queue)
    _threads = threads


def enqueue(name: str, **ids: str) -> None:
    """Enqueue a task now."""
    if _current.calls is not None and _tasks[name].handover is not None:
        _current.calls[name, tuple(sorted(ids.items()))] = None
    else:
        _queue.enqueue(_tasks[name], ids)


def enqueue_reliably(name: str, **ids: str) -> None:
    """Enqueue what a periodic run found: for any worker, and on this process's own threads, which lose nothing.

    Whoever comes second finds nothing left to do. A task without a period of its own is enqueued in this way by the
    periodic task that finds its work.
    """
    if _threads is not None:
        _threads.put(_tasks[name], ids)
    if _queue is not _threads:
        enqueue(name, **ids)


def enqueue_on_commit(name: str, **ids: str) -> None:
    """Enqueue a task once the surrounding transaction has committed."""
    transaction.on_commit(lambda: enqueue(name, **ids))


def send_on_commit(signal: Signal, **news: object) -> None:
    """Send `signal` once the surrounding transaction has committed; at once when there is none.

    So an app tells those above it that something happened. Django's model signals, which hide who does what, are not
    used.
    """
    transaction.on_commit(lambda: signal.send(sender=None, **news))


def _signal_of(event: str) -> Signal:
    app, _, name = event.partition(".")
    signal: Signal = import_string(f"{app}.signals.{name}")
    return signal
