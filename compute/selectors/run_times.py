"""How long jobs run, by what jobs like them did: of the same project, template and purpose. One query each.

`RunHistory` is for forecasts of starts, and `forecast_durations` for what people are told.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

from compute.engine.forecast import Forecast, forecast_from, likeness
from compute.engine.job_spec import JobSpec
from compute.engine.states import HOLDING, JOB_STATES, JobState
from compute.models import Job
from compute.selectors import templates
from core import clock
from scheduler.selectors.forecasts import Lengths, Run, RunTimes, each_once, learn

_MOST_EARLIER, _MOST_FORECAST = 2000, 500
_PURPOSE = ("spec__command", "spec__env__NEARLINE_FLOW", "spec__env__NEARLINE_STEP")
_LIMITS = ("spec__timeout_s", "spec__simulated_duration_s")
COLUMNS = (
    *("pk", "project_id", "template_name", "resource__is_simulated", "state", "started_at"),
    *_PURPOSE,
    *_LIMITS,
    "grace_period_s",
)
"""What has to be read of a job to predict how long it runs."""
_HALF_LIFE = 50
"""After so many later runs like it a run counts half as much: jobs come in batches, and those of one batch are the most
alike. The benchmark `scheduler.run_times` compares others."""
_ENDING = HOLDING - {JobState.STARTING, JobState.RUNNING}
_Key = tuple[str, str, str]
DURATION_KEYS = ("command", "timeout_s", "simulated_duration_s", "env__NEARLINE_FLOW", "env__NEARLINE_STEP")
"""What says in a spec how long its job will run."""


class RunHistory:
    """The runs of some projects. How a run ended does not matter: its resources came back."""

    def __init__(self, jobs: Collection[Mapping[str, Any]]) -> None:
        """Read the runs that have ended in the projects of these jobs. Of the jobs, those that run count too."""
        self._now = clock.now()
        ended = Job.objects.filter(
            project__in={job["project_id"] for job in jobs},
            state__in=sorted(JOB_STATES.final),
            started_at__isnull=False,
        )
        columns = ("started_at", "project_id", "template_name", *_PURPOSE)
        runs = list(ended.order_by("-pk").values_list(*columns, "finished_at")[:_MOST_EARLIER])
        runs += [(*(job[column] for column in columns), None) for job in jobs if _is_running(job)]
        self._runs: dict[_Key, list[Run]] = defaultdict(list)
        self._lengths: dict[_Key, Lengths] = {}
        for started_at, project_id, template, *purpose, finished_at in sorted(runs, key=itemgetter(0), reverse=True):
            run = Run(self._seconds_since(started_at, finished_at), goes_on=finished_at is None)
            for name in (template, ""):
                self._runs[project_id, name, likeness(*purpose)].append(run)

    def predict(self, job: Mapping[str, Any], template: str | None = None) -> RunTimes:
        """Return how long a job runs, from its `COLUMNS`; as one that starts anew where a `template` is named.

        Without a run that has ended on that template, those of the same purpose on any other count. On nodes that do
        not exist a job declares how long it takes. One that is being stopped goes on for its grace period at most.
        """
        is_running = template is None and _is_running(job)
        ran_s = self._seconds_since(job["started_at"]) if is_running else 0.0
        if job["resource__is_simulated"]:
            lengths = each_once(float(job["spec__simulated_duration_s"] or 0.0))
        else:
            purpose = likeness(*(job[column] for column in _PURPOSE))
            named, every = (
                self._learn((job["project_id"], name, purpose)) for name in (template or job["template_name"], "")
            )
            lengths = named if named.seconds else every
        limit_s: float | None = job["spec__timeout_s"]
        if template is None and job["state"] in _ENDING:
            grace_s = 0.0 if job["resource__is_simulated"] else templates.bound_grace_period(job["grace_period_s"])
            limit_s = min(math.inf if limit_s is None else limit_s, ran_s + grace_s)
        return RunTimes(lengths, ran_s, limit_s)

    def _learn(self, key: _Key) -> Lengths:
        if key not in self._lengths:
            self._lengths[key] = learn(self._runs.get(key, ()), _HALF_LIFE)
        return self._lengths[key]

    def _seconds_since(self, started_at: datetime, finished_at: datetime | None = None) -> float:
        return max(0.0, ((finished_at or self._now) - started_at).total_seconds())


def _is_running(job: Mapping[str, Any]) -> bool:
    return job["started_at"] is not None and job["state"] != JobState.PENDING


def forecast_durations(jobs: Sequence[Job]) -> Mapping[str, Forecast]:
    """Return by id how long jobs will likely run; a job without history is left out. Needs the resource at hand."""
    if not jobs:
        return {}
    earlier = Job.objects.filter(
        project__in={job.project_id for job in jobs},
        template_name__in={job.template_name for job in jobs},
        state=JobState.SUCCEEDED,
        started_at__isnull=False,
    )
    rows = earlier.order_by("-pk").values_list("project_id", "template_name", *_PURPOSE, "started_at", "finished_at")
    seconds: dict[_Key, list[float]] = defaultdict(list)
    for project_id, template, command, flow, step, started_at, finished_at in rows[:_MOST_FORECAST]:
        key = (project_id, template, likeness(command, flow, step))
        seconds[key].append((finished_at - started_at).total_seconds())
    learnt = {key: forecast_from(durations) for key, durations in seconds.items()}
    expected = {job.pk: _declared(job) or learnt.get(_key_of(job)) for job in jobs}
    return {job_id: forecast for job_id, forecast in expected.items() if forecast is not None}


def with_duration_keys(values: Sequence[Any]) -> dict[str, Any]:
    """Return a spec that has these values of the keys, and nothing else."""
    spec: dict[str, Any] = {"env": {}}
    for key, value in zip(DURATION_KEYS, values, strict=True):
        part, _, name = key.rpartition("__")
        if value is not None:
            (spec[part] if part else spec)[name] = value
    return spec


def _declared(job: Job) -> Forecast | None:
    if not job.resource.is_simulated:
        return None
    seconds = job.spec.get("simulated_duration_s", JobSpec.simulated_duration_s)
    return Forecast(seconds, seconds, 0)


def _key_of(job: Job) -> _Key:
    env = job.spec.get("env", {})
    purpose = likeness(job.spec.get("command"), env.get("NEARLINE_FLOW"), env.get("NEARLINE_STEP"))
    return job.project_id, job.template_name, purpose
