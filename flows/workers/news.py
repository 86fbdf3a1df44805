"""Enqueues the runs that a change in another app concerns. Writes nothing: the rows say what changed."""

from collections import OrderedDict
from collections.abc import Collection, Sequence

from django.db.models import QuerySet

from core import clock, orm, tasks
from core.prepared import prepared
from flows.engine.states import STEP_ENDS
from flows.models import Attempt, Run, Step
from flows.workers import staging


def jobs_stopped(stopped_ids: Sequence[str]) -> None:
    """Enqueue each run of a job that has stopped, once. That others have begun to run the periodic run notes.

    Many steps have ended by then, and need no look of their own.
    """
    runs = {_run_by_job[job_id] for job_id in stopped_ids if job_id in _run_by_job}
    for batch in orm.in_batches([job_id for job_id in stopped_ids if job_id not in _run_by_job]):
        runs.update(_runs_of(batch))
    for run_id in sorted(runs):
        tasks.enqueue("flows.advance", run_id=run_id)


_run_by_job: OrderedDict[str, str] = OrderedDict()
_MOST_KNOWN = 10_000


def note_run(job_id: str, run_id: str) -> None:
    """Note of which run a new job is, which never changes, so that this process need not read it when the job ends."""
    _run_by_job[job_id] = run_id
    while len(_run_by_job) > _MOST_KNOWN:
        _run_by_job.popitem(last=False)


@prepared
def _runs_of(job_ids: Collection[str]) -> QuerySet[Attempt, str]:
    return Attempt.objects.filter(is_live=True, job__in=job_ids).values_list("run_id", flat=True)


def outputs_stored(run_id: str) -> None:
    """Wake a run whose steps have all ended; while some are under way, their own news does."""
    if not Step.objects.filter(run=run_id).exclude(state__in=sorted(STEP_ENDS)).exists():
        Run.objects.filter(pk=run_id).update(wake_at=clock.now())
        tasks.enqueue("flows.advance", run_id=run_id)


def cached_commit_changed(cached_commit_id: str) -> None:
    """Enqueue each run that waits for that commit."""
    for run_id in staging.runs_waiting_for(cached_commit_id):
        tasks.enqueue("flows.advance", run_id=run_id)
