"""Forecasts the starts of waiting jobs, in the background: cycles, hand-overs and pages never wait for it.

What is told comes from one run of the engine forward; each round is stored, scored when the jobs start, and takes at
most a part of the machine's time.
"""

import math
from collections.abc import Collection
from typing import Any

from django.db.models import QuerySet

from compute.engine.states import JobState
from compute.models import Job
from compute.selectors import start_forecasts
from compute.selectors.start_forecasts import Forecaster, JobFacts
from compute.workers import relocation
from core import clock, isolation
from scheduler.selectors.forecasts import find_open
from scheduler.services import forecasts
from scheduler.services.forecasts import NewForecast

FORECAST = "compute.forecast"
"""The kind of failures; items are jobs."""

FORECAST_POOL = "compute.forecast_pool"
"""The kind of failures; items are pools in which the engine fails."""

_SHARE_OF_TIME = 0.05


class _Pace:
    """Leaves time between rounds, in proportion to what the last one took."""

    next_at = -math.inf


_pace = _Pace()


def find_work() -> list[QuerySet[Any]]:
    """Return the jobs that wait, and the forecasts that are not scored yet."""
    return [Job.objects.filter(is_live=True, state=JobState.PENDING), *find_open()]


def update_forecasts() -> None:
    """Forecast all waiting jobs anew, unless the last round was long and is not long ago; then score only."""
    started_at = clock.monotonic()
    if started_at < _pace.next_at:
        score_started()
    else:
        forecast_all()
        now = clock.monotonic()
        _pace.next_at = now + (now - started_at) / _SHARE_OF_TIME


def score_started() -> None:
    """Score the forecasts of jobs that have started: soon, as one that is evicted has lost its start."""
    forecasts.score(set(Job.objects.filter(is_live=True, state=JobState.PENDING).values_list("name", flat=True)))


def forecast_all(*, only: Collection[str] | None = None) -> None:
    """Score the forecasts of jobs that have started, forecast those that wait, and move those that need not wait.

    Where named, it is `only` some of those that wait. What has its place, or may get one now, is not forecast.
    """
    score_started()
    in_line = start_forecasts.list_in_line()
    jobs = start_forecasts.list_live_jobs() if in_line else []
    asked = [job for job in jobs if job["pk"] in in_line and (only is None or job["name"] in only)]
    if asked:
        forecaster = Forecaster(jobs, asked)

        def make(job: JobFacts) -> NewForecast:
            forecast = forecaster.forecast(job)
            return NewForecast(
                name=job["name"],
                wait=job["evictions"],
                resource_id=job["resource_id"],
                likely_s=forecast.likely_s,
                late_s=forecast.late_s,
                raw_likely_s=forecast.raw_likely_s,
                raw_late_s=forecast.raw_late_s,
                wait_class=forecast.wait_class,
                facts=forecast.facts,
                pool_id=forecast.pool_id,
            )

        known = [job for job in asked if not forecaster.is_unknown(job)]
        made = isolation.for_each(FORECAST, known, make, key=lambda job: str(job["pk"]))
        forecasts.store(made, at=forecaster.now)
        relocation.move_waiting(forecaster, asked)
        isolation.for_each(FORECAST_POOL, forecaster.pool_ids, forecaster.require_pool)
