"""A task follows events by their names: what another app sends enqueues it, without ids."""

import pytest
from django.dispatch import Signal

from core import tasks
from scheduler import signals
from tests.factories.queues import RecordedQueue


@pytest.fixture
def recorder(monkeypatch):
    monkeypatch.setattr(tasks, "_tasks", dict(tasks.registered()))
    monkeypatch.setattr(signals, "workload_placed", Signal())
    made = RecordedQueue()
    before = tasks.install(made)
    yield made
    tasks.install(before)


def test_an_event_enqueues_every_task_that_follows_it_without_ids(recorder):
    for name in ("test.first", "test.second"):
        tasks.task(name, on=("scheduler.workload_placed",))(lambda: None)
    tasks.task("test.other")(lambda: None)

    signals.workload_placed.send(sender=None, workload_ids=["wl_1"])

    assert recorder.messages == [("test.first", {}), ("test.second", {})]


def test_a_task_cannot_follow_an_event_that_no_app_declares(recorder):
    register = tasks.task("test.first", on=("scheduler.workload_vanished",))

    with pytest.raises(ImportError):
        register(lambda: None)
