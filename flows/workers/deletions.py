"""Removing deleted runs, and flows with their runs: some rows at a time, so that nobody waits for it.

The experiments of a run are deleted with its attempts, and their jobs are shown no more; each app removes its own.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Greatest

from accounts.permissions import Actor
from accounts.project_contents import remove_first
from compute.services import deletions as job_deletions
from core import clock, isolation, tasks
from experiments.selectors import artifacts
from experiments.services import deletions as experiment_deletions
from flows.engine import names
from flows.engine.states import RUN_ENDS
from flows.errors import RunHasEnded
from flows.models import Attempt, AttemptInput, Flow, FlowVersion, Run, RunEvent, Step
from flows.services import runs

REMOVE_RUN, REMOVE_FLOW = "flows.remove_run", "flows.remove_flow"
"""Kinds of failures; items are runs and flows."""

_SYSTEM = Actor.system("deleted runs")
_RUNS_AT_ONCE, _BATCHES_AT_ONCE = 100, 200
_ATTEMPTS_AT_ONCE = 200


def find_deleted() -> list[QuerySet[Any]]:
    """Return the deleted runs, and the deleted flows."""
    return [Run.objects.filter(deleted_at__isnull=False), Flow.objects.filter(deleted_at__isnull=False)]


def remove_deleted() -> None:
    """Remove deleted runs and flows, some batches of rows of each; the rest follows."""
    deleted_runs, deleted_flows = find_deleted()
    results = isolation.for_each(REMOVE_FLOW, deleted_flows.order_by("pk"), _remove_flow)
    if any([*results, _remove_first(deleted_runs)]):
        tasks.enqueue("flows.remove_deleted")


def _remove_flow(flow: Flow) -> bool:
    """Delete some runs of a deleted flow, and at last remove the flow; return whether there was anything to do."""
    own = Run.objects.filter(flow=flow)
    if own.exists():
        # What was started or retried meanwhile.
        isolation.for_each(REMOVE_RUN, own.filter(is_live=True, cancel_requested_at=None).order_by("pk"), _cancel)
        # Deleted before they are removed, so that nobody retries them.
        ended = own.filter(state__in=sorted(RUN_ENDS), deleted_at=None)
        ids = list(ended.order_by("number").values_list("pk", flat=True)[:_RUNS_AT_ONCE])
        return bool(ended.filter(pk__in=ids).update(deleted_at=clock.now()))
    if not remove_first(FlowVersion.objects.filter(flow=flow)):
        flow.delete()
    return True


def _cancel(run: Run) -> None:
    with suppress(RunHasEnded):
        runs.cancel_run(actor=_SYSTEM, run=run)


def _remove_first(deleted: QuerySet[Run]) -> bool:
    """Remove rows of the first deleted runs; return whether there were any. Small runs go together."""
    by_project: defaultdict[str, list[Run]] = defaultdict(list)
    for run in isolation.take(REMOVE_RUN, deleted.order_by("pk"), _RUNS_AT_ONCE):
        by_project[run.project_id].append(run)
    results = [isolation.in_batch(REMOVE_RUN, each, _remove_runs) for each in by_project.values()]
    return any(map(any, results))


def _remove_runs(deleted: Sequence[Run]) -> bool:
    """Remove some rows of these runs of one project; return whether there were any. May be repeated at any time.

    A run whose attempts hold datasets, or whose outputs are still being stored, waits.
    """
    held = AttemptInput.objects.filter(attempt__run__in=deleted, is_live=True)
    waiting = {*held.values_list("attempt__run", flat=True), *artifacts.find_storing([run.pk for run in deleted])}
    free = {run.pk: run for run in deleted if run.pk not in waiting}
    if not free:
        return False
    rest = (RunEvent.objects.filter(run__in=free), Step.objects.filter(run__in=free))
    for _ in range(_BATCHES_AT_ONCE):
        if not (_remove_attempts(deleted[0].project_id, free) or remove_first(*rest)):
            _finish(free.values())
            break
    return True


@transaction.atomic
def _remove_attempts(project_id: str, run_ids: Collection[str]) -> bool:
    """Remove some attempts with their experiments; return whether there were any."""
    rows = Attempt.objects.filter(run__in=run_ids).order_by().values_list("pk", "job_id")
    attempts = dict(rows[:_ATTEMPTS_AT_ONCE])
    if not attempts:
        return False
    experiment_deletions.delete_experiments_of_run(
        actor=_SYSTEM, project_id=project_id, kind=names.EXPERIMENT_KIND, source_ids=attempts
    )
    job_ids = [job_id for job_id in attempts.values() if job_id is not None]
    job_deletions.delete_jobs_of_run(actor=_SYSTEM, project_id=project_id, job_ids=job_ids)
    AttemptInput.objects.filter(attempt__in=attempts).delete()
    Attempt.objects.filter(pk__in=attempts).delete()
    return True


@transaction.atomic
def _finish(removed: Collection[Run]) -> None:
    last: dict[str, int] = {}
    for run in removed:
        last[run.flow_id] = max(run.number, last.get(run.flow_id, 0))
    for flow_id, number in sorted(last.items()):
        Flow.objects.filter(pk=flow_id).update(last_removed_run=Greatest("last_removed_run", number))
    Run.objects.filter(pk__in=[run.pk for run in removed]).delete()
