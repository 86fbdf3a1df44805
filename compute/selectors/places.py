"""Where jobs that are not submitted yet would start and be done: what flows choose templates by.

One run of the engine forward answers for all templates; what is stored in the background answers for jobs that wait.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from compute.engine.job_spec import DEFAULT_GRACE_PERIOD_S
from compute.engine.placing import Placing
from compute.engine.states import JobState
from compute.models import Template
from compute.selectors import start_forecasts
from compute.selectors.start_forecasts import Forecaster, JobFacts, shape_of
from core import clock, priorities
from scheduler.selectors.forecasts import find_forecasts


@dataclass(frozen=True)
class NewJob:
    """What decides about a job of which `count` equal ones would be submitted now, wherever it goes.

    `flow` and `step` say what it is for, None for a job submitted by hand; so does its command. `commits` are the ids
    of those that it reads. `simulated_duration_s` is how long it takes on nodes that do not exist. `pools` are those in
    which it finds its place; none: its template is named. `own_` amounts are what it asks for without a template.
    """

    project_id: str
    project: str
    command: str
    simulated_duration_s: float
    flow: str | None = None
    step: str | None = None
    commits: Sequence[str] = ()
    name: str = ""
    count: int = 1
    replicas: int = 1
    placing: Placing = Placing()
    is_preemptible: bool = True
    priority: int = priorities.DEFAULT
    timeout_s: float | None = None
    image: str = ""
    pools: Sequence[str] = ()
    own_cpu_millicores: int | None = None
    own_memory_bytes: int | None = None

    def facts_at(self, template: Template) -> JobFacts:
        """Return what forecasts read of a job, as it would be on a template."""
        return {
            **shape_of(template),
            "pk": "",
            "kind": "",
            "name": self.name,
            "title": "",
            "project_id": self.project_id,
            "project__name": self.project,
            "state": JobState.PENDING,
            "workload_id": None,
            "started_at": None,
            "created_at": clock.now(),
            "evictions": 0,
            "grace_period_s": DEFAULT_GRACE_PERIOD_S,
            "replica_count": self.replicas,
            **({"gpu_milli": 0} if self.placing.has_own_gpu else {}),
            "priority": self.priority,
            "is_preemptible": self.is_preemptible,
            "template_id": template.pk if template.is_stored else None,
            "spec__placing": self.placing.to_json(),
            "spec__command": self.command,
            "spec__env__NEARLINE_FLOW": self.flow,
            "spec__env__NEARLINE_STEP": self.step,
            "spec__timeout_s": self.timeout_s,
            "spec__simulated_duration_s": self.simulated_duration_s,
            "spec__commits": list(self.commits),
            "spec__fallbacks": (),
            "spec__moves_by": "",
            "spec__pools": self.pools,
            "spec__own_cpu_millicores": self.own_cpu_millicores,
            "spec__own_memory_bytes": self.own_memory_bytes,
            "spec__image": self.image,
        }


@dataclass(frozen=True)
class ForecastPlace:
    """When jobs start on a template, in seconds and ascending (infinite: not known), and how long each runs there."""

    starts_in_s: Sequence[float]
    run_s: float


@dataclass(frozen=True)
class StoredPlace:
    """A template as a stored forecast names it, and what it says of a job there. `pool`: where labels divide."""

    template: str
    resource: str
    pool: str
    forecast: ForecastPlace


def forecast_places(jobs: Mapping[str, tuple[NewJob, Mapping[str, Template]]]) -> dict[tuple[str, str], ForecastPlace]:
    """Return what each of these jobs may expect on each of its templates, by its key and what the template is called.

    For callers that have checked who may know.
    """
    facts = {key: job.facts_at(next(iter(templates.values()))) for key, (job, templates) in jobs.items()}
    forecaster = Forecaster([*facts.values(), *start_forecasts.list_live_jobs()])
    forecasts = {}
    for key, (job, templates) in jobs.items():
        for name, template in templates.items():
            if (place := forecaster.starts_at(facts[key], template, job.count)) is not None:
                forecasts[key, name] = ForecastPlace(*place)
    return forecasts


def find_stored_places(job_names: Collection[str], *, made_after: datetime) -> dict[str, list[StoredPlace]]:
    """Return by name what jobs that wait may expect where they wait and elsewhere, as it was last forecast.

    Forecasts that are as old as `made_after` are left out. For callers that have checked who may know.
    """
    now = clock.now()

    def seconds_until(text: str | None) -> float:
        return float("inf") if text is None else max(0.0, (datetime.fromisoformat(text) - now).total_seconds())

    def place_of(facts: Mapping[str, Any]) -> StoredPlace:
        forecast = ForecastPlace((seconds_until(facts["starts_at"]),), facts["run_s"] or float("inf"))
        return StoredPlace(facts["template"], facts["resource"], facts.get("pool") or "", forecast)

    return {
        name: [place_of(facts) for facts in stored.facts["places"]]
        for name, stored in find_forecasts(job_names).items()
        if stored.made_at > made_after
    }
