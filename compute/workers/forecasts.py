"""Forecasts the starts of waiting jobs, in the background: cycles, hand-overs and pages never wait for it.

What is told comes from one run of the engine forward; each round is stored, scored when the jobs start, and takes at
most a part of the machine's time.
"""

import math
from typing import Any

from django.db.models import QuerySet

from compute.engine.states import JobState
from compute.models import Job
from compute.selectors import start_forecasts
from compute.selectors.start_forecasts import Forecaster, JobFacts
from core import clock, isolation
from scheduler.selectors.forecasts import find_open
from scheduler.services import forecasts
from scheduler.services.forecasts import NewForecast

FORECAST = "compute.forecast"
"""The kind of failures; items are jobs."""

_SHARE_OF_TIME = 0.05


class _Pace:
    """Leaves time between rounds, in proportion to what the last one took."""

    next_at = -math.inf


_pace = _Pace()


def find_work() -> list[QuerySet[Any]]:
    """Return the jobs that wait, and the forecasts that are not scored yet."""
    return [Job.objects.filter(is_live=True, state=JobState.PENDING), *find_open()]


def update_forecasts() -> None:
    """Forecast all waiting jobs anew, unless the last round was long and is not long ago."""
    started_at = clock.monotonic()
    if started_at >= _pace.next_at:
        forecast_all()
        now = clock.monotonic()
        _pace.next_at = now + (now - started_at) / _SHARE_OF_TIME


def forecast_all() -> None:
    """Score the forecasts of jobs that have started, and forecast those that wait."""
    jobs = start_forecasts.list_live_jobs()
    waiting = [job for job in jobs if job["state"] == JobState.PENDING]
    forecasts.score({job["name"] for job in waiting})
    if waiting:
        forecaster = Forecaster(jobs)

        def make(job: JobFacts) -> NewForecast:
            told = forecaster.forecast(job)
            name, wait, place = job["name"], job["evictions"], job["resource_id"]
            return NewForecast(name, wait, place, told.likely_s, told.late_s, told.facts)

        made = isolation.for_each(FORECAST, waiting, make, key=lambda job: str(job["pk"]))
        forecasts.store(made, at=forecaster.now)
