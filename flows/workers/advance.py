"""Moving runs on. `advance_run` is the only writer of a run's state, steps and attempts.

It reads, asks the planner, writes, and reads again until there is nothing to do. Others only enqueue the run; the
periodic run finds the work of a lost message, because the rows say what there is to do (`find_work`).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import IntegrityError
from django.db.models import Q, QuerySet
from prometheus_client import Histogram

from core import clock, isolation, leases, tasks
from core.models import Failure
from core.prepared import prepared
from experiments.workers import harvest
from flows.engine import planner
from flows.engine.states import STEP_ENDS, AttemptState
from flows.engine.transitions import Bring, Finish, Remind, Start, Supersede, Transition
from flows.errors import LeaseLost
from flows.models import Run, Step
from flows.selectors import failures, specs
from flows.workers import apply, handover, known_runs, next_data, snapshots, staging
from flows.workers.job_specs import JobSpecs
from flows.workers.snapshots import Ended, Loaded, News

# For what takes longer than usual: forecasts, a store that is away, and reading the logs of many jobs.
_LONG_LEASE_S, _MANY_LOGS = 60.0, 20
_MOMENT = timedelta(seconds=1)

ADVANCE_SECONDS = Histogram("nearline_flow_advance_seconds", "Time that one call of advance took")


def advance_run(run_id: str) -> None:
    """Do all that can be done for a run now. Can be called by anybody at any time, also twice at once."""
    if (run := _take(run_id)) is None:
        return
    token = run.lease_token
    try:
        with ADVANCE_SECONDS.time():
            after = _advance_kept(run, token)
            while after is not None:
                after = _advance_kept(snapshots.get_run(run_id), token, after)
    except LeaseLost:
        return
    except BaseException as error:
        if isinstance(error, IntegrityError) and not Run.objects.filter(pk=run_id, lease_token=token).exists():
            return  # the lease had run out, and who took it then wrote the same rows first
        leases.release(Run.objects.filter(pk=run_id), token)
        raise


def _advance_kept(run: Run, token: str, after: str = "") -> str | None:
    """Do what `_advance_once` does, and keep the lease meanwhile: to look at a million files takes longer."""
    with leases.kept(Run.objects.filter(pk=run.pk), token, for_s=_LONG_LEASE_S):
        return _advance_once(run, token, after)


def _advance_once(run: Run, token: str, after: str = "") -> str | None:
    """Make one plan and write it. Return behind which attempt to look next (empty: at all); the lease is kept for that.

    None: there is nothing left, and the lease is released. A plan follows all consequences by itself; only new inputs
    to stage, news meanwhile, and news of many attempts need another plan.
    """
    if run.has_ended:
        leases.release(Run.objects.filter(pk=run.pk), token)
        return None
    rows = Run.objects.filter(pk=run.pk)
    keep_lease = partial(leases.renew, rows, token, for_s=_LONG_LEASE_S)
    has_data = specs.graph_of(run.version_id).has_data
    if has_data:
        staging.reconcile_inputs(run.pk, keep_lease)
    now = clock.now()
    news = snapshots.read_news(run, now, after=after)
    if snapshots.may_forecast(run) or len(news.ended_jobs) > _MANY_LOGS:
        keep_lease()
    ended = _settle(run, news)
    loaded, transitions, specs_of_jobs = _plan(run, now, news, ended)
    if refused := staging.bring_ahead(run, loaded, transitions, keep_lease):
        loaded = snapshots.with_refusals(loaded, refused)
        transitions = planner.plan(loaded.snapshot, now)
    if any(isinstance(transition, Finish) for transition in transitions):
        loaded = snapshots.with_storing(loaded)
        transitions = planner.plan(loaded.snapshot, now)
    transitions.extend(next_data.find_unneeded(loaded, transitions))
    look_at = None
    # A plan that changes something is followed by another one: what is brought ahead delays nothing.
    if has_data and all(isinstance(transition, Remind | Bring) for transition in transitions):
        ahead = next_data.bring(loaded, now, partial(leases.renew, rows, token, for_s=_LONG_LEASE_S))
        loaded, look_at = ahead.loaded, ahead.look_at
        transitions.extend(ahead.transitions)
    looks_again = apply.apply(
        loaded,
        transitions,
        token=token,
        now=now,
        looks_again=bool(news.go_on_after),
        looks_again_on_change=has_data,
        look_at=look_at,
        specs=specs_of_jobs,
    )
    return news.go_on_after if looks_again else None


def _plan(run: Run, now: datetime, news: News, ended: Ended) -> tuple[Loaded, list[Transition], JobSpecs | None]:
    """Return a plan whose consequences are all followed, with what it is made of and what its jobs are told.

    A step that cannot read at a template what its parents left goes elsewhere, or fails.
    """
    loaded, is_further = snapshots.load(run, now, news, ended), False
    specs_of_jobs: JobSpecs | None = None
    while True:
        transitions = planner.plan(loaded.snapshot, now)
        known = loaded.snapshot.unreadable
        if not is_further and planner.goes_further(loaded.snapshot, transitions):
            is_further, specs_of_jobs = True, None
            further = snapshots.load(run, now, news, ended, is_further=True)
            loaded = snapshots.with_unreadable(further, known)
            continue
        if not any(isinstance(transition, Start | Supersede) for transition in transitions):
            return loaded, transitions, specs_of_jobs
        specs_of_jobs = specs_of_jobs or JobSpecs(loaded)
        unreadable = specs_of_jobs.find_unreadable(transitions)
        if unreadable.keys() <= known.keys():
            return loaded, transitions, specs_of_jobs
        loaded = snapshots.with_unreadable(loaded, unreadable)


def _settle(run: Run, news: News) -> Ended:
    """Do what must be done before the ends of jobs count: read their logs, and look at what they read and wrote."""
    jobs = news.ended_jobs
    if not jobs:
        return Ended()
    # Conditions look at what is marked as read.
    marks_silent = bool(specs.graph_of(run.version_id).measured)
    read = harvest.read_ended(sorted(jobs), jobs, marks_silent=marks_silent)
    return Ended(jobs, read, handover.inspect_ended(run, news.attempts, jobs))


def advance_all() -> None:
    """Advance every run that has something to do, also those whose message was lost."""
    advance_each(find_waiting())


def advance_each(run_ids: Sequence[str]) -> None:
    """Advance these runs. One that cannot be advanced stops none of the others, and ends when it is cancelled."""
    isolation.for_each(failures.ADVANCE, run_ids, advance_run, on_failure=_end_cancelled)


def _end_cancelled(run_id: str, _failure: Failure) -> None:
    """End a run that was cancelled and cannot be advanced: its jobs are stopped, and nothing is planned any more."""
    taken = _take(run_id)
    if taken is None:
        return
    token = taken.lease_token
    try:
        if apply.end_cancelled(run_id, token=token, now=clock.now()):
            isolation.forget(failures.ADVANCE, [run_id])
    except LeaseLost:
        return
    finally:
        leases.release(Run.objects.filter(pk=run_id), token)


def _take(run_id: str) -> Run | None:
    """Take the lease of a live run, and return the run. Where another worker holds it, have that one look again."""
    run = _take_free(run_id)
    if run is None and Run.objects.filter(pk=run_id, is_live=True).update(wake_at=clock.now()):
        # Whoever held it may have let go of it before it could see that.
        run = _take_free(run_id)
    return run


def _take_free(run_id: str) -> Run | None:
    now = clock.now()
    held = {"lease_token": leases.new_token(), "lease_expires_at": now + timedelta(seconds=apply.LEASE_S)}
    rows = _free.update_returning(held, snapshots.RUN_COLUMNS, run_id, now, leases.latest_end(now))
    return snapshots.run_of(rows[0]) if rows else None


@prepared
def _free(run_id: str, now: datetime, latest_end: datetime) -> QuerySet[Run]:
    return Run.objects.filter(leases.is_free(now, latest_end), pk=run_id, is_live=True)


def find_work() -> list[QuerySet[Any]]:
    """Return what may be news about live runs. What was queued a moment ago is left out: it may soon have ended."""
    now = clock.now()
    attempts = snapshots.live_attempts_with_news(now).exclude(state=AttemptState.QUEUED, queued_at__gt=now - _MOMENT)
    return [_runs_to_wake(now), attempts, staging.find_preparing()]


def find_waiting() -> list[str]:
    """Return the ids of the live runs about which there is news."""
    now = clock.now()
    due = set(_runs_to_wake(now).values_list("pk", flat=True))
    due.update(snapshots.live_attempts_with_news(now).values_list("run_id", flat=True))
    due.update(staging.find_runs_to_advance())
    return sorted(due)


def enqueue_runs_of_jobs(stopped_ids: Sequence[str]) -> None:
    """Enqueue each run of a job that has stopped, once. That others have begun to run the periodic run notes.

    Many steps have ended by then, and need no look of their own.
    """
    for run_id in sorted(known_runs.runs_of_jobs(stopped_ids)):
        tasks.enqueue("flows.advance", run_id=run_id)


def wake_run_with_stored_outputs(run_id: str) -> None:
    """Wake a run whose steps have all ended; while some are under way, their own news does."""
    if not Step.objects.filter(run=run_id).exclude(state__in=sorted(STEP_ENDS)).exists():
        Run.objects.filter(pk=run_id).update(wake_at=clock.now())
        tasks.enqueue("flows.advance", run_id=run_id)


def enqueue_runs_waiting_for(cached_commit_id: str) -> None:
    """Enqueue each run that waits for that commit."""
    for run_id in staging.runs_waiting_for(cached_commit_id):
        tasks.enqueue("flows.advance", run_id=run_id)


def _runs_to_wake(now: datetime) -> QuerySet[Run]:
    return Run.objects.filter(Q(wake_at__lte=now) | Q(retry_requested_at__isnull=False), is_live=True)
