"""The embedded doorbell runs every ring, merges equal ones, and never loses news that comes while it works."""

import threading

import pytest

from core import doorbell
from core.doorbell import Lane, Task
from core.local_doorbell import LocalDoorbell

LIMIT_S = 30


@pytest.fixture
def bell():
    made = LocalDoorbell()
    yield made
    made.stop()


@pytest.fixture
def register(monkeypatch):
    """Return a function that registers a handler for the length of a test."""
    monkeypatch.setattr(doorbell, "_tasks", dict(doorbell.registered()))

    def make(name: str, handler, lane: Lane = Lane.ADVANCE) -> Task:
        doorbell.task(name, lane=lane)(handler)
        return doorbell.registered()[name]

    return make


def test_a_ring_runs_its_handler_with_the_ids(bell, register):
    seen, done = [], threading.Event()
    task = register("test.note", lambda run_id: (seen.append(run_id), done.set()))
    bell.start()

    bell.ring(task, {"run_id": "run_1"})

    assert done.wait(LIMIT_S)
    assert seen == ["run_1"]


def test_equal_rings_that_wait_are_merged(bell, register):
    seen, done = [], threading.Event()
    task = register("test.note", lambda run_id: (seen.append(run_id), done.set()))

    for _ in range(5):
        bell.ring(task, {"run_id": "run_1"})
    bell.start()

    assert done.wait(LIMIT_S)
    bell.stop()
    assert seen == ["run_1"]


def test_a_ring_for_work_that_runs_is_run_after_it_and_never_beside_it(bell, register):
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
    bell.start()
    bell.ring(task, {})
    assert entered.acquire(timeout=LIMIT_S)
    bell.ring(task, {})
    release.release(2)

    assert finished.acquire(timeout=LIMIT_S)
    assert finished.acquire(timeout=LIMIT_S)
    assert most == [1, 1]


def test_after_a_handler_that_fails_the_next_ring_runs(bell, register):
    done = threading.Event()

    def fail() -> None:
        raise RuntimeError("the disk is on fire")

    broken = register("test.broken", fail)
    fine = register("test.fine", done.set)
    bell.start()

    bell.ring(broken, {})
    bell.ring(fine, {})

    assert done.wait(LIMIT_S)


def test_a_slow_lane_does_not_hold_another_up(bell, register):
    release, done = threading.Event(), threading.Event()
    slow = register("test.slow", lambda number: release.wait(LIMIT_S), Lane.CACHE)
    quick = register("test.quick", done.set, Lane.ADVANCE)
    bell.start()

    for number in range(4):
        bell.ring(slow, {"number": str(number)})
    bell.ring(quick, {})

    assert done.wait(LIMIT_S)
    release.set()


def test_what_a_tick_finds_is_done_here_though_every_ring_is_lost(bell, register):
    seen, done = [], threading.Event()
    register("test.note", lambda run_id: (seen.append(run_id), done.set()))
    before = doorbell.install(doorbell.Silent())
    doorbell.install_lanes(bell)
    bell.start()

    doorbell.ring("test.note", run_id="lost")
    doorbell.ring_surely("test.note", run_id="found")

    assert done.wait(LIMIT_S)
    doorbell.install_lanes(None)
    doorbell.install(before)
    assert seen == ["found"]


def test_what_a_tick_finds_is_rung_for_once_where_rings_go_to_the_same_threads(bell, register):
    seen, done = [], threading.Event()
    register("test.note", lambda: (seen.append(1), done.set()))
    before = doorbell.install(bell)
    doorbell.install_lanes(bell)

    doorbell.ring_surely("test.note")
    bell.start()

    assert done.wait(LIMIT_S)
    bell.stop()
    doorbell.install_lanes(None)
    doorbell.install(before)
    assert seen == [1]
