"""How long jobs will likely run, from what their project's earlier jobs did. A fixed number of queries."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from compute.engine.forecast import Forecast, learn, likeness
from compute.engine.job_spec import JobSpec
from compute.engine.states import JobState
from compute.models import Job

_MOST_EARLIER = 500

DURATION_KEYS = ("command", "timeout_s", "simulated_duration_s", "env__NEARLINE_FLOW", "env__NEARLINE_STEP")
"""What says in a spec how long its job will run."""

_PURPOSE = ("spec__command", "spec__env__NEARLINE_FLOW", "spec__env__NEARLINE_STEP")
_Key = tuple[str, str, str]


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
    for project_id, template, command, flow, step, started_at, finished_at in rows[:_MOST_EARLIER]:
        key = (project_id, template, likeness(command, flow, step))
        seconds[key].append((finished_at - started_at).total_seconds())
    learnt = {key: learn(durations) for key, durations in seconds.items()}
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
