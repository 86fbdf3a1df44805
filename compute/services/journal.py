"""The only way in which jobs change their state: checked against the table, fenced by the token, written down.

One call is a handful of statements however many jobs it changes: rows are locked in the order of their keys, steps
that are not allowed fall out, equal changes share one UPDATE, and the events are created together.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from django.db.models import F

from compute import signals
from compute.engine.states import JOB_STATES, JobState
from compute.models import Job, JobEvent
from core import orm
from core.orm import MomentById
from core.signals import send_on_commit
from scheduler.services.workloads import release_many, requeue_many

T = TypeVar("T")

# SQLite allows some ten thousand values in one statement; shorter ones also plan faster everywhere.
_STOPPED = JOB_STATES.final | {JobState.PENDING}
_LOCKED_FIELDS = ("token", "state", "event_seq", "starts", "lease_expires_at", "workload_id")


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

    `locked` are the jobs, where the caller holds them already. A job that ends releases its resources in the same
    transaction, and so does one that is requeued.
    """
    rows = {job.pk: job for job in (lock_jobs([step.job_id for step in steps]) if locked is None else locked)}
    allowed = [step for step in steps if step.job_id in rows and _is_allowed(step, rows[step.job_id])]
    for group in _equal_steps(allowed):
        sources = JOB_STATES.sources_of(group[0].to)
        for batch in orm.in_batches(group):
            jobs = Job.objects.filter(pk__in=[step.job_id for step in batch], state__in=sources)
            times = {
                column: MomentById.of({step.job_id: step.times[column] for step in batch}) for column in group[0].times
            }
            jobs.update(state=group[0].to, event_seq=F("event_seq") + 1, **group[0].fields, **times)
    JobEvent.objects.bulk_create(
        [
            JobEvent(
                job_id=step.job_id, seq=rows[step.job_id].event_seq + 1, state=step.to, message=step.message, at=now
            )
            for step in allowed
        ],
        batch_size=orm.BATCH_ROWS,
    )
    _give_back([rows[step.job_id].workload_id for step in allowed if step.to in JOB_STATES.final], release_many)
    _give_back([rows[step.job_id].workload_id for step in allowed if step.to is JobState.PENDING], requeue_many)
    ids = [step.job_id for step in allowed]
    if ids:
        stopped_ids = [step.job_id for step in allowed if step.to in _STOPPED]
        send_on_commit(signals.job_changed, job_ids=ids, stopped_ids=stopped_ids)
    return ids


def lock_jobs(job_ids: Collection[str]) -> list[Job]:
    """Return these jobs in the order of their keys, held until the caller's transaction ends; only what steps need."""
    return [
        job
        for batch in orm.in_batches(sorted(set(job_ids)))
        for job in Job.objects.select_for_update().filter(pk__in=batch).only(*_LOCKED_FIELDS).order_by("pk")
    ]


def lock_pending_jobs(workload_ids: Collection[str]) -> list[Job]:
    """Return the pending jobs of these workloads, as `lock_jobs` does."""
    pending = Job.objects.select_for_update().filter(workload_id__in=workload_ids, state=JobState.PENDING)
    return list(pending.only(*_LOCKED_FIELDS).order_by("pk"))


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
