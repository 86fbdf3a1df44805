"""How long a job runs is learnt from jobs of the same project, template and purpose: ended ones, and those that run."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from compute.models import Job
from compute.selectors.run_times import RunHistory
from compute.selectors.start_forecasts import list_live_jobs
from core import clock
from scheduler.selectors.forecasts import Run, RunTimes, learn
from tests.factories import compute as make

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
MINUTE_S = 60


@pytest.fixture
def half_past_noon(resource):
    resource.is_simulated = False
    resource.save()
    with clock.frozen_at(NOON + timedelta(minutes=30)):
        yield


def submit(project, template, name: str, *, began: int | None = None, ended: int | None = None, **spec) -> None:
    """Submit a job that began and ended so many minutes after noon."""
    [job] = make.submit(project, template, name, **{"command": "python train.py", **spec})
    states = {"state": "pending" if began is None else "running" if ended is None else "succeeded"}
    moments = {
        column: NOON + timedelta(minutes=minutes)
        for column, minutes in (("started_at", began), ("finished_at", ended))
        if minutes is not None
    }
    Job.objects.filter(pk=job.pk).update(**states, **moments)


def predict(name: str) -> RunTimes:
    jobs = list_live_jobs()
    return RunHistory(jobs).predict(next(job for job in jobs if job["name"] == name))


def test_jobs_that_run_count_with_what_they_have_run_by_now_and_later_ones_more(project, template, half_past_noon):
    submit(project, template, "second", began=1, ended=11)
    submit(project, template, "third", began=2)
    submit(project, template, "first", began=0, ended=20)
    submit(project, template, "other", began=3, command="python evaluate.py")
    submit(project, template, "waits")

    runs = [Run(28 * MINUTE_S, goes_on=True), Run(10 * MINUTE_S), Run(20 * MINUTE_S)]
    assert predict("waits") == RunTimes(learn(runs, half_life=50))
    assert predict("third") == RunTimes(learn(runs, half_life=50), ran_s=28 * MINUTE_S)


def test_where_none_has_ended_on_its_template_those_on_others_count(project, resource, template, half_past_noon):
    submit(project, make.make_template(resource, "large"), "past", began=0, ended=10)
    submit(project, template, "runs", began=1)
    submit(project, template, "waits")

    assert predict("waits") == RunTimes(learn([Run(29 * MINUTE_S, goes_on=True), Run(10 * MINUTE_S)], half_life=50))


def test_where_all_like_it_still_run_its_end_is_unknown_but_for_its_limit(project, template, half_past_noon):
    submit(project, template, "runs", began=0)
    submit(project, template, "waits")
    submit(project, template, "limited", timeout_s=600)

    assert predict("waits").left_s(0.5) == math.inf
    assert predict("limited").left_s(0.5) == 600
