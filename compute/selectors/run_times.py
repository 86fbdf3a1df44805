"""How long jobs run, by what jobs like them did: of the same project, template and purpose. One query."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from compute.engine.forecast import likeness
from compute.engine.states import JOB_STATES, JobState
from compute.models import Job
from core import clock
from scheduler.selectors.forecasts import RunTimes

_MOST_EARLIER = 2000
_PURPOSE = ("spec__command", "spec__env__NEARLINE_FLOW", "spec__env__NEARLINE_STEP")
_LIMITS = ("spec__timeout_s", "spec__simulated_duration_s")
COLUMNS = (
    *("pk", "project_id", "template_name", "resource__is_simulated", "state", "started_at"),
    *_PURPOSE,
    *_LIMITS,
)
"""What has to be read of a job to predict how long it runs."""

_Key = tuple[str, str, str]


class RunHistory:
    """The lengths of past runs of some projects. How a run ended does not matter: its resources came back."""

    def __init__(self, project_ids: Iterable[str]) -> None:
        ended = Job.objects.filter(
            project__in=set(project_ids), state__in=sorted(JOB_STATES.final), started_at__isnull=False
        )
        columns = ("project_id", "template_name", *_PURPOSE, "started_at", "finished_at")
        self._lengths: dict[_Key, list[float]] = defaultdict(list)
        self._ascending: dict[_Key, tuple[float, ...]] = {}
        for project_id, template, *purpose, started_at, finished_at in ended.order_by("-pk").values_list(*columns)[
            :_MOST_EARLIER
        ]:
            seconds = max(0.0, (finished_at - started_at).total_seconds())
            for name in (template, ""):
                self._lengths[project_id, name, likeness(*purpose)].append(seconds)

    def predict(self, job: Mapping[str, Any], template: str | None = None) -> RunTimes:
        """Return how long a job runs, from its `COLUMNS`; as one that starts anew where a `template` is named.

        Without a run on that template, those of the same purpose on any other count. On nodes that do not exist a job
        declares how long it takes.
        """
        is_running = template is None and job["started_at"] is not None and job["state"] != JobState.PENDING
        ran_s = max(0.0, (clock.now() - job["started_at"]).total_seconds()) if is_running else 0.0
        if job["resource__is_simulated"]:
            lengths: tuple[float, ...] = (float(job["spec__simulated_duration_s"] or 0.0),)
        else:
            purpose = likeness(*(job[column] for column in _PURPOSE))
            keys = [(job["project_id"], name, purpose) for name in (template or job["template_name"], "")]
            lengths = next((self._sorted(key) for key in keys if key in self._lengths), ())
        return RunTimes(lengths, ran_s, job["spec__timeout_s"])

    def _sorted(self, key: _Key) -> tuple[float, ...]:
        if key not in self._ascending:
            self._ascending[key] = tuple(sorted(self._lengths[key]))
        return self._ascending[key]
