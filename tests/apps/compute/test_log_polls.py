"""How often logs are read that a cluster has to bring."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest

from compute.adapters import drivers
from compute.models import Job
from compute.selectors import log_polls
from tests.factories import compute as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def at(monkeypatch):
    """Return a function that sets the clock, in seconds."""
    monkeypatch.setattr(log_polls, "_polls", {})
    monkeypatch.setattr(log_polls, "_mute", {})
    return lambda seconds: monkeypatch.setattr(log_polls, "time", SimpleNamespace(monotonic=lambda: seconds))


@pytest.fixture
def job(project, template, monkeypatch):
    monkeypatch.setitem(drivers.KINDS, "simulated", replace(drivers.KINDS["simulated"], is_remote=True))
    [job] = make.submit(project, template, "train")
    return job


def silent_jobs(job: Job, count: int, project_id: str = "") -> list[Job]:
    told = {"state": "running", "resource": job.resource, "project_id": project_id or job.project_id}
    return [Job(pk=f"job_{number}", **told) for number in range(count)]


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


def test_a_log_that_cannot_be_read_is_silent(at, job):
    at(0)
    log_polls.note(job, "test", None)
    at(1000)
    log_polls.note(job, "test", None)

    assert not log_polls.is_due(job, "test")


def test_that_nothing_was_printed_is_asked_once_for_all_purposes(at, job):
    at(0)
    log_polls.note(job, "test", 0)
    at(1000)
    log_polls.note(job, "test", 0)

    assert (log_polls.is_due(job, "other"), log_polls.list_due([job.pk, "new"], "other")) == (False, ["new"])


def test_what_was_new_to_one_purpose_the_others_read_at_once_and_then_at_their_own_pace(at, job):
    at(0)
    log_polls.note(job, "test", 7)
    assert log_polls.is_due(job, "other")

    log_polls.note(job, "other", 7)
    at(1000)
    log_polls.note(job, "test", 7)

    assert (log_polls.is_due(job, "test"), log_polls.is_due(job, "other")) == (False, True)


def test_hundreds_of_running_jobs_that_have_printed_nothing_are_asked_for_20_times_a_minute_together(at, job):
    jobs = silent_jobs(job, 400)
    at(0)
    for each in jobs:
        log_polls.note(each, "test", 0)

    asked = []
    for second in range(0, 3600, 100):
        at(second)
        due = [each for each in jobs if log_polls.is_due(each, "test")]
        for each in due:
            log_polls.note(each, "test", 0)
        asked += [second] * len(due)

    assert asked == [second for second in (900, 1800, 2700) for _ in jobs]


def test_where_a_thousand_have_printed_nothing_a_new_job_waits_for_its_turn_and_one_that_has_ended_does_not(at, job):
    at(0)
    for each in silent_jobs(job, 1000):
        log_polls.note(each, "test", 0)

    assert not log_polls.is_due(job, "test")
    at(2703)
    assert log_polls.is_due(job, "test")
    job.state = "succeeded"
    assert log_polls.is_due(job, "test")


def test_a_job_that_has_printed_is_asked_as_before_however_many_are_silent(at, job):
    at(0)
    for each in silent_jobs(job, 400):
        log_polls.note(each, "test", 0)
    log_polls.note(job, "test", 7)
    at(100)
    log_polls.note(job, "test", 7)
    at(125)

    assert log_polls.is_due(job, "test")


def test_silent_jobs_that_nobody_asks_for_any_more_lengthen_no_pause(at, job):
    at(0)
    for each in [*silent_jobs(job, 400), job]:
        log_polls.note(each, "test", 0)
    at(5000)
    log_polls.note(job, "test", 0)
    at(5300)

    assert log_polls.is_due(job, "test")


def test_logs_that_are_read_without_a_network_are_always_due(at, job, monkeypatch):
    monkeypatch.setitem(drivers.KINDS, "simulated", replace(drivers.KINDS["simulated"], is_remote=False))
    for second in (0, 1000):
        at(second)
        log_polls.note(job, "test", 7)

    assert log_polls.is_due(job, "test")


def test_silent_jobs_of_one_project_do_not_slow_down_another(at, job):
    at(0)
    for each in silent_jobs(job, 2000, "another"):
        log_polls.note(each, "test", 0)

    assert log_polls.is_due(job, "test")
    log_polls.note(job, "test", 0)
    at(1)
    assert log_polls.is_due(job, "test")
