"""The embedded queue runs every call, merges equal ones, and misses no change that comes while it works."""

import threading

import pytest
from django.db import OperationalError

from core import tasks
from core.local_queue import LocalQueue
from core.tasks import Queue, Task

LIMIT_S = 300


@pytest.fixture
def local():
    made = LocalQueue()
    yield made
    made.stop()


@pytest.fixture
def register(monkeypatch):
    """Return a function that registers a handler for the length of a test."""
    monkeypatch.setattr(tasks, "_tasks", dict(tasks.registered()))

    def make(name: str, handler, queue: Queue = Queue.ADVANCE) -> Task:
        tasks.task(name, queue=queue)(handler)
        return tasks.registered()[name]

    return make


def test_a_message_runs_its_handler_with_the_ids(local, register):
    seen, done = [], threading.Event()
    task = register("test.note", lambda run_id: (seen.append(run_id), done.set()))
    local.start()

    local.enqueue(task, {"run_id": "run_1"})

    assert done.wait(LIMIT_S)
    assert seen == ["run_1"]


def test_equal_messages_that_wait_are_merged(local, register):
    seen, done = [], threading.Event()
    task = register("test.note", lambda run_id: (seen.append(run_id), done.set()))

    for _ in range(5):
        local.enqueue(task, {"run_id": "run_1"})
    local.start()

    assert done.wait(LIMIT_S)
    local.stop()
    assert seen == ["run_1"]


def test_a_message_for_work_that_runs_is_run_after_it_and_never_beside_it(local, register):
    entered, release, finished = threading.Semaphore(0), threading.Semaphore(0), threading.Semaphore(0)
    at_once, most = [], []

    def work() -> None:
        at_once.append(1)
        most.append(len(at_once))
        entered.release()
        release.acquire(timeout=LIMIT_S)
        at_once.pop()
        finished.release()

    task = register("test.work", work)
    local.start()
    local.enqueue(task, {})
    assert entered.acquire(timeout=LIMIT_S)
    local.enqueue(task, {})
    release.release(2)

    assert finished.acquire(timeout=LIMIT_S)
    assert finished.acquire(timeout=LIMIT_S)
    assert most == [1, 1]


def test_after_a_handler_that_fails_the_next_message_runs(local, register):
    done = threading.Event()

    def fail() -> None:
        raise RuntimeError("the disk is on fire")

    broken = register("test.broken", fail)
    fine = register("test.fine", done.set)
    local.start()

    local.enqueue(broken, {})
    local.enqueue(fine, {})

    assert done.wait(LIMIT_S)


def test_a_slow_queue_does_not_hold_another_up(local, register):
    release, done = threading.Event(), threading.Event()
    slow = register("test.slow", lambda number: release.wait(LIMIT_S), Queue.CACHE)
    quick = register("test.quick", done.set, Queue.ADVANCE)
    local.start()

    for number in range(4):
        local.enqueue(slow, {"number": str(number)})
    local.enqueue(quick, {})

    assert done.wait(LIMIT_S)
    release.set()


def test_what_a_periodic_run_finds_is_done_here_though_every_message_is_lost(local, register):
    seen, done = [], threading.Event()
    register("test.note", lambda run_id: (seen.append(run_id), done.set()))
    before = tasks.install(tasks.NullQueue())
    tasks.install_threads(local)
    local.start()

    tasks.enqueue("test.note", run_id="lost")
    tasks.enqueue_reliably("test.note", run_id="found")

    assert done.wait(LIMIT_S)
    tasks.install_threads(None)
    tasks.install(before)
    assert seen == ["found"]


def test_what_a_periodic_run_finds_is_enqueued_once_where_messages_go_to_the_same_threads(local, register):
    seen, done = [], threading.Event()
    register("test.note", lambda: (seen.append(1), done.set()))
    before = tasks.install(local)
    tasks.install_threads(local)

    tasks.enqueue_reliably("test.note")
    local.start()

    assert done.wait(LIMIT_S)
    local.stop()
    tasks.install_threads(None)
    tasks.install(before)
    assert seen == [1]


def test_what_fails_after_a_hand_over_ends_no_thread(local, register):
    seen, done = [], threading.Event()

    def fail():
        raise OperationalError("database is locked")

    def note(run_id: str):
        tasks.after_hand_over(fail)
        tasks.after_hand_over(lambda: (seen.append(run_id), len(seen) == 5 and done.set()))

    task = register("test.note", note)
    tasks.install_threads(local)
    local.start()

    for number in range(5):  # more than the queue has threads
        local.enqueue(task, {"run_id": f"run_{number}"})

    assert done.wait(LIMIT_S)
    tasks.install_threads(None)
    assert sorted(seen) == [f"run_{number}" for number in range(5)]
