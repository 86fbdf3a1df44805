"""Enqueues the runs that a change in another app concerns. Writes nothing: the rows say what changed."""

from collections.abc import Sequence

from core import clock, orm, tasks
from flows.engine.states import STEP_ENDS
from flows.models import Attempt, Run, Step
from flows.workers import staging


def jobs_stopped(stopped_ids: Sequence[str]) -> None:
    """Enqueue each run of a job that has stopped, once. That others have begun to run the periodic run notes.

    Many steps have ended by then, and need no look of their own.
    """
    runs: set[str] = set()
    for batch in orm.in_batches(stopped_ids):
        live = Attempt.objects.filter(is_live=True, job__in=batch)
        runs.update(live.values_list("run_id", flat=True))
    for run_id in sorted(runs):
        tasks.enqueue("flows.advance", run_id=run_id)


def outputs_stored(run_id: str) -> None:
    """Wake a run whose steps have all ended; while some are under way, their own news does."""
    if not Step.objects.filter(run=run_id).exclude(state__in=sorted(STEP_ENDS)).exists():
        Run.objects.filter(pk=run_id).update(wake_at=clock.now())
        tasks.enqueue("flows.advance", run_id=run_id)


def cached_commit_changed(cached_commit_id: str) -> None:
    """Enqueue each run that waits for that commit."""
    for run_id in staging.runs_waiting_for(cached_commit_id):
        tasks.enqueue("flows.advance", run_id=run_id)
