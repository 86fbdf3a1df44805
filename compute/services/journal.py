"""The only way in which jobs change their state: checked against the table, fenced by the token, written down.

One call is a handful of statements however many jobs it changes: rows are locked in the order of their keys, steps
that are not allowed fall out, equal changes share one UPDATE, and the events are created together.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, QuerySet

from compute import signals
from compute.engine.states import IDLE, JOB_STATES, JobState
from compute.models import Job, JobEvent
from compute.selectors import jobs as job_selectors
from core import clock, orm
from core.orm import MomentById
from core.prepared import insert, prepared
from core.tasks import send_on_commit
from scheduler.services.workloads import release_many, requeue_many

# SQLite allows some ten thousand values in one statement; shorter ones also plan faster everywhere.
_STOPPED = JOB_STATES.final | IDLE
_RELEASING = JOB_STATES.final | {JobState.SUSPENDED}
# Made once, as comparing expressions takes longer than many a statement.
_NEXT_EVENT = F("event_seq") + 1
_LOOK_AGAIN = timedelta(seconds=3)
LOCKED_FIELDS = (
    "project_id",
    "token",
    "state",
    "event_seq",
    "starts",
    "lease_expires_at",
    "workload_id",
    "parts_running",
)


@dataclass(frozen=True)
class Step:
    """One job's step to another state. `fields` are columns that change with it, `times` those that hold moments."""

    job_id: str
    token: str
    to: JobState
    message: str
    fields: Mapping[str, object] = field(default_factory=dict)
    times: Mapping[str, datetime] = field(default_factory=dict)


def record_steps(steps: Sequence[Step], *, now: datetime, locked: Collection[Job] | None = None) -> list[str]:
    """Write the steps that are still allowed, inside the caller's transaction; return the ids of their jobs.

    `locked` are the jobs, where the caller holds them already. A job that ends or is suspended releases its
    resources in the same transaction, and so does one that is requeued.
    """
    written = _write_alone(steps[0]) if locked is None and len(steps) == 1 else _write_together(steps, locked)
    insert(
        [JobEvent(job_id=step.job_id, seq=seq, state=step.to, message=step.message, at=now) for step, seq, _ in written]
    )
    _give_back([workload_id for step, _, workload_id in written if step.to in _RELEASING], release_many)
    _give_back([workload_id for step, _, workload_id in written if step.to is JobState.PENDING], requeue_many)
    allowed = [step for step, *_ in written]
    ids = [step.job_id for step in allowed]
    if ids:
        stopped_ids = [step.job_id for step in allowed if step.to in _STOPPED]
        send_on_commit(signals.job_changed, job_ids=ids, stopped_ids=stopped_ids)
    return ids


Written = tuple[Step, int, str | None]
"""A step that was written, the number of its event, and the workload of its job."""


def _write_alone(step: Step) -> list[Written]:
    """Write one step, if it is allowed, in one statement: one row needs no order of locks."""
    changes = {"state": step.to, "event_seq": _NEXT_EVENT, **step.fields, **step.times}
    sources = JOB_STATES.sources_of(step.to)
    if step.to not in JOB_STATES.final:
        rows = _of_run.update_returning(changes, ("event_seq", "workload_id"), step.job_id, step.token, sources)
        return [(step, seq, workload_id) for seq, workload_id in rows]
    rows = _of_run.update_returning(changes, job_selectors.COLUMNS, step.job_id, step.token, sources)
    jobs = [job_selectors.job_of(row) for row in rows]
    job_selectors.note_ended(jobs)
    return [(step, job.event_seq, job.workload_id) for job in jobs]


def _write_together(steps: Sequence[Step], locked: Collection[Job] | None) -> list[Written]:
    rows = {job.pk: job for job in (lock_jobs([step.job_id for step in steps]) if locked is None else locked)}
    allowed = [step for step in steps if step.job_id in rows and _is_allowed(step, rows[step.job_id])]
    for group in _equal_steps(allowed):
        sources = JOB_STATES.sources_of(group[0].to)
        for batch in orm.in_batches(group):
            changes = {"state": group[0].to, **group[0].fields}
            if len(batch) == 1:
                changes |= {"event_seq": rows[batch[0].job_id].event_seq + 1, **batch[0].times}
            else:
                times = {
                    column: MomentById.of({step.job_id: step.times[column] for step in batch})
                    for column in group[0].times
                }
                changes |= {"event_seq": _NEXT_EVENT, **times}
            _in_states.update(changes, [step.job_id for step in batch], sources)
    return [(step, rows[step.job_id].event_seq + 1, rows[step.job_id].workload_id) for step in allowed]


@transaction.atomic
def record_reasons(reasons: Mapping[str, tuple[str, str]], *, now: datetime) -> None:
    """Write what jobs wait for that start or run, by id, each with the token of the run that is meant."""
    jobs = [
        job
        for job in lock_jobs(reasons)
        if job.token == reasons[job.pk][0] and job.state in {JobState.STARTING, JobState.RUNNING}
    ]
    for job in jobs:
        Job.objects.filter(pk=job.pk).update(reason=reasons[job.pk][1])
    record_notes({job.pk: reasons[job.pk][1] or "It goes on." for job in jobs}, now=now, locked=jobs)


def put_off_start(job: Job, reason: str) -> None:
    """Have the start of a job, which waits for something, looked at again soon. The wait is no try to start it."""
    starting = Job.objects.filter(pk=job.pk, token=job.token, state=JobState.STARTING)
    starting.update(starts=F("starts") - 1, lease_expires_at=clock.now() + _LOOK_AGAIN, reason=reason)


def record_notes(messages: Mapping[str, str], *, now: datetime, locked: Collection[Job]) -> None:
    """Write events of jobs whose state stays, by their ids, inside the transaction in which the caller locked them.

    Each tells the present state: one that runs as parts is running while any of them is.
    """
    Job.objects.filter(pk__in=messages).update(event_seq=_NEXT_EVENT)
    JobEvent.objects.bulk_create(
        JobEvent(job_id=job.pk, seq=job.event_seq + 1, state=job.present_state, message=messages[job.pk], at=now)
        for job in locked
        if job.pk in messages
    )
    if messages:
        send_on_commit(signals.job_changed, job_ids=list(messages), stopped_ids=[])


def lock_jobs(job_ids: Collection[str]) -> list[Job]:
    """Return these jobs in the order of their keys, held until the caller's transaction ends; only what steps need."""
    return [job for batch in orm.in_batches(sorted(set(job_ids))) for job in _locked(batch)]


def lock_with_parts(job: Job) -> list[str]:
    """Return the ids of a job and of its parts that have not ended; it gets no more parts in this transaction."""
    if not job.has_parts:
        return [job.pk]
    lock_jobs([job.pk])
    return [job.pk, *Job.objects.filter(part_of=job.pk, is_live=True).order_by("pk").values_list("pk", flat=True)]


@prepared
def _locked(job_ids: Collection[str]) -> QuerySet[Job]:
    return Job.objects.select_for_update().filter(pk__in=job_ids).only(*LOCKED_FIELDS).order_by("pk")


@prepared
def _of_run(job_id: str, token: str, states: Collection[str]) -> QuerySet[Job]:
    return Job.objects.filter(pk=job_id, token=token, state__in=states)


@prepared
def _in_states(job_ids: Collection[str], states: Collection[str]) -> QuerySet[Job]:
    return Job.objects.filter(pk__in=job_ids, state__in=states)


def _is_allowed(step: Step, job: Job) -> bool:
    return job.token == step.token and step.to in JOB_STATES.arrows[JobState(job.state)]


def _equal_steps(steps: Sequence[Step]) -> Collection[list[Step]]:
    groups: dict[tuple[JobState, str, frozenset[str]], list[Step]] = {}
    for step in steps:
        equal = (step.to, repr(sorted(step.fields.items())), frozenset(step.times))
        groups.setdefault(equal, []).append(step)
    return groups.values()


def _give_back(workload_ids: Sequence[str | None], end: Callable[[Collection[str]], object]) -> None:
    for batch in orm.in_batches([workload_id for workload_id in workload_ids if workload_id is not None]):
        end(batch)
