"""How long jobs will likely run, from what their project's earlier jobs did. A fixed number of queries."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from compute.engine.forecast import Forecast, learn, likeness
from compute.engine.states import JobState
from compute.models import Job
from compute.selectors.jobs import get_spec

_MOST_EARLIER = 500

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


def _declared(job: Job) -> Forecast | None:
    if not job.resource.is_simulated:
        return None
    seconds = get_spec(job).simulated_duration_s
    return Forecast(seconds, seconds, 0)


def _key_of(job: Job) -> _Key:
    spec = get_spec(job)
    purpose = likeness(spec.command, spec.env.get("NEARLINE_FLOW"), spec.env.get("NEARLINE_STEP"))
    return job.project_id, job.template_name, purpose
