"""How often logs are read that a cluster has to bring."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest

from compute.adapters import drivers
from compute.selectors import log_polls
from tests.factories import compute as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def at(monkeypatch):
    """Return a function that sets the clock, in seconds."""
    monkeypatch.setattr(log_polls, "_polls", {})
    return lambda seconds: monkeypatch.setattr(log_polls, "time", SimpleNamespace(monotonic=lambda: seconds))


@pytest.fixture
def job(project, template, monkeypatch):
    monkeypatch.setitem(drivers.KINDS, "simulated", replace(drivers.KINDS["simulated"], is_remote=True))
    [job] = make.submit(project, template, "train")
    return job


def pauses(at, job, *, from_s: int, until_s: int) -> list[int]:
    """Return the pauses between reads of a job that prints nothing."""
    moments = [from_s]
    for second in range(from_s, until_s):
        at(second)
        if log_polls.is_due(job, "test"):
            log_polls.note(job, "test", 7)
            moments.append(second)
    return [later - earlier for earlier, later in pairwise(moments)]


def test_a_silent_job_is_asked_after_a_quarter_of_its_silence_and_after_five_minutes_at_the_latest(at, job):
    at(0)
    assert log_polls.is_due(job, "test")
    log_polls.note(job, "test", 7)

    silent = pauses(at, job, from_s=1, until_s=7200)

    assert silent[:12] == [0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 5, 6]
    assert (max(silent), silent[-1], len(silent)) == (300, 300, 48)


def test_a_job_that_prints_again_is_asked_often_again(at, job):
    at(0)
    log_polls.note(job, "test", 7)
    at(1000)
    log_polls.note(job, "test", 7)
    at(1001)
    assert not log_polls.is_due(job, "test")

    log_polls.note(job, "test", 8)

    assert log_polls.is_due(job, "test")


def test_a_log_that_cannot_be_read_is_silent_and_each_purpose_has_its_own_pace(at, job):
    at(0)
    log_polls.note(job, "test", None)
    at(1000)
    log_polls.note(job, "test", None)

    assert not log_polls.is_due(job, "test")
    assert log_polls.is_due(job, "other")


def test_logs_that_are_read_without_a_network_are_always_due(at, job, monkeypatch):
    monkeypatch.setitem(drivers.KINDS, "simulated", replace(drivers.KINDS["simulated"], is_remote=False))
    for second in (0, 1000):
        at(second)
        log_polls.note(job, "test", 7)

    assert log_polls.is_due(job, "test")
