"""Following the jobs that people submit: what they print, their states, and that their outputs are to be stored.

Flows tell that of attempts themselves.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from django.db.models import QuerySet

from accounts.permissions import Actor
from compute.selectors import jobs as job_selectors
from core import isolation
from experiments.engine.states import LIVE, ExperimentState
from experiments.models import Experiment
from experiments.selectors import failures, recorded
from experiments.selectors.sources import JOB
from experiments.services import experiments
from experiments.services.experiments import Field
from experiments.workers import harvest

if TYPE_CHECKING:
    from compute.models import Job

_SYSTEM = Actor.system("experiments")
# A log of measurements alone takes a minute to its end, in which no other job would be followed.
_PIECES_AT_ONCE = 10
_STATES: Mapping[str, ExperimentState] = {
    "pending": ExperimentState.QUEUED,
    "starting": ExperimentState.QUEUED,
    "running": ExperimentState.RUNNING,
    "leaving": ExperimentState.RUNNING,
    "suspending": ExperimentState.RUNNING,
    "suspended": ExperimentState.QUEUED,
    "stopping": ExperimentState.RUNNING,
    "succeeded": ExperimentState.SUCCEEDED,
    "failed": ExperimentState.FAILED,
    "lost": ExperimentState.FAILED,
    "cancelled": ExperimentState.CANCELLED,
}


def find_live() -> list[QuerySet[Experiment]]:
    """Return the experiments of submitted jobs that have not ended."""
    return [Experiment.objects.filter(is_live=True, state__in=LIVE, source_kind=JOB)]


def follow_jobs() -> None:
    """Copy the states of submitted jobs that have not ended to their experiments; end those whose log was read."""
    (live,) = find_live()
    states = {job_id: state for job_id, state in live.values_list("job_id", "state") if job_id is not None}
    jobs = list(job_selectors.list_by_id(states).values()) if states else []
    harvest.read_ended([job.pk for job in jobs if job.has_ended], most_pieces=_PIECES_AT_ONCE)
    read = recorded.find_read(JOB, [job.name for job in jobs if job.has_ended])

    def follow(job: "Job") -> None:
        if _STATES[job.state] != states[job.pk] and (not job.has_ended or job.name in read):
            experiments.update_experiments(actor=_SYSTEM, kind=JOB, changes={job.name: _change(job)})

    isolation.for_each(failures.FOLLOW_JOB, jobs, follow)


def _change(job: "Job") -> Mapping[Field, object]:
    return {
        "state": _STATES[job.state],
        "reason": job.reason if job.has_ended else "",
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "artifacts_wanted": job.state == "succeeded" and not job.left_nothing,
    }
