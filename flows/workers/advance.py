"""Moving runs on. `advance_run` is the only writer of a run's state, steps and attempts.

It reads, asks the planner, writes, and reads again until there is nothing to do. Others only enqueue the run; the
periodic run finds the work of a lost message, because the rows say what there is to do (`snapshots.has_news`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from prometheus_client import Histogram

from core import clock, isolation, leases
from core.models import Failure
from experiments.workers import harvest
from flows.engine import planner
from flows.errors import LeaseLost
from flows.models import Run
from flows.selectors import failures, specs
from flows.workers import apply, handover, snapshots, staging

ADVANCE_SECONDS = Histogram("nearline_flow_advance_seconds", "Time that one call of advance took")


def advance_run(run_id: str) -> None:
    """Do all that can be done for a run now. Can be called by anybody at any time, also twice at once."""
    is_first = True
    while (token := _take(run_id)) is not None:
        has_changed = False
        try:
            with ADVANCE_SECONDS.time():
                while (looked := _advance_once(run_id, token)).has_changed:
                    has_changed = True
                    if not looked.is_worth_another:
                        break
        except LeaseLost:
            return
        finally:
            leases.release(Run.objects.filter(pk=run_id), token)
        # A worker that came while the lease was held went away again, so the holder reads once more. What a whole pass
        # could do nothing about waits for the periodic run.
        if not (is_first or has_changed) or not snapshots.has_news(run_id, clock.now()):
            return
        is_first = False


@dataclass(frozen=True)
class _Look:
    """What one look did. A plan follows all consequences by itself; only new inputs to stage need another look."""

    has_changed: bool
    is_worth_another: bool = False


def _advance_once(run_id: str, token: str) -> _Look:
    """Make one plan and write it."""
    run = snapshots.get_run(run_id)
    if run.has_ended:
        return _Look(has_changed=False)
    has_data = any(step.data for step in specs.spec_of(run.version_id).steps)
    if has_data:
        staging.reconcile_inputs(run_id)
    harvest.read_ended(snapshots.ended_jobs(run_id))
    faults = handover.inspect_ended(run_id)
    now = clock.now()
    loaded = snapshots.load(run, now, faults)
    transitions = planner.plan(loaded.snapshot, now)
    has_changed = apply.apply(loaded, transitions, token=token, now=now)
    return _Look(has_changed, is_worth_another=has_data)


def advance_all() -> None:
    """Advance every run that has something to do, also those whose message was lost."""
    advance_each(find_waiting())


def advance_each(run_ids: Sequence[str]) -> None:
    """Advance these runs. One that cannot be advanced stops none of the others, and ends when it is cancelled."""
    isolation.for_each(failures.ADVANCE, run_ids, advance_run, on_failure=_end_cancelled)


def _end_cancelled(run_id: str, _failure: Failure) -> None:
    """End a run that was cancelled and cannot be advanced: its jobs are stopped, and nothing is planned any more."""
    token = _take(run_id)
    if token is None:
        return
    try:
        if apply.end_cancelled(run_id, token=token, now=clock.now()):
            isolation.forget(failures.ADVANCE, [run_id])
    except LeaseLost:
        return
    finally:
        leases.release(Run.objects.filter(pk=run_id), token)


def _take(run_id: str) -> str | None:
    """Take the lease of a live run."""
    return leases.take(Run.objects.filter(pk=run_id, is_live=True), for_s=apply.LEASE_S)


def find_work() -> list[QuerySet[Any]]:
    """Return what may be news about live runs."""
    now = clock.now()
    return [_runs_to_wake(now), snapshots.live_attempts_with_news(now), staging.find_preparing()]


def find_waiting() -> list[str]:
    """Return the ids of the live runs about which there is news."""
    now = clock.now()
    due = set(_runs_to_wake(now).values_list("pk", flat=True))
    due.update(snapshots.live_attempts_with_news(now).values_list("run_id", flat=True))
    due.update(staging.find_runs_to_advance())
    return sorted(due)


def _runs_to_wake(now: datetime) -> QuerySet[Run]:
    return Run.objects.filter(Q(wake_at__lte=now) | Q(retry_requested_at__isnull=False), is_live=True)
