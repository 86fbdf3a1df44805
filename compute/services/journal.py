"""The only way in which jobs change their state: checked against the table, fenced by the token, written down.

One call is a handful of statements however many jobs it changes: rows are locked in the order of their keys, steps
that are not allowed fall out, equal changes share one UPDATE, and the events are created together.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from django.db import connection
from django.db.models import F

from compute import signals
from compute.engine.states import JOB_STATES, JobState
from compute.models import Job, JobEvent
from core.signals import send_on_commit
from scheduler.services import workloads

T = TypeVar("T")

# SQLite allows some ten thousand values in one statement; shorter ones also plan faster everywhere.
BATCH = 500


@dataclass(frozen=True)
class Step:
    """One job's step to another state. `fields` are columns that change with it, `times` those that hold moments."""

    job_id: str
    token: str
    to: JobState
    message: str
    fields: Mapping[str, object] = field(default_factory=dict)
    times: Mapping[str, datetime] = field(default_factory=dict)


def record_steps(steps: Sequence[Step], *, now: datetime) -> list[str]:
    """Write the steps that are still allowed, inside the caller's transaction; return the ids of their jobs.

    A job that ends gives its room back to the scheduler in the same transaction.
    """
    rows = {job.pk: job for job in lock_jobs([step.job_id for step in steps])}
    allowed = [step for step in steps if step.job_id in rows and _is_allowed(step, rows[step.job_id])]
    for group in _equal_steps(allowed):
        sources = JOB_STATES.sources_of(group[0].to)
        for batch in batches([step.job_id for step in group]):
            jobs = Job.objects.filter(pk__in=batch, state__in=sources)
            jobs.update(state=group[0].to, event_seq=F("event_seq") + 1, **group[0].fields)
    _write_times(allowed)
    JobEvent.objects.bulk_create(
        [
            JobEvent(
                job_id=step.job_id, seq=rows[step.job_id].event_seq + 1, state=step.to, message=step.message, at=now
            )
            for step in allowed
        ],
        batch_size=BATCH,
    )
    _release([rows[step.job_id].workload_id for step in allowed if step.to in JOB_STATES.final])
    ids = [step.job_id for step in allowed]
    if ids:
        send_on_commit(signals.job_changed, job_ids=ids)
    return ids


def lock_jobs(job_ids: Collection[str]) -> list[Job]:
    """Return these jobs in the order of their keys, held until the caller's transaction ends, without their specs."""
    return [
        job
        for batch in batches(sorted(set(job_ids)))
        for job in Job.objects.select_for_update().filter(pk__in=batch).defer("spec").order_by("pk")
    ]


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut a long list into pieces that fit one statement."""
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))


def _is_allowed(step: Step, job: Job) -> bool:
    return job.token == step.token and step.to in JOB_STATES.arrows[JobState(job.state)]


def _equal_steps(steps: Sequence[Step]) -> Collection[list[Step]]:
    groups: dict[tuple[JobState, str], list[Step]] = {}
    for step in steps:
        groups.setdefault((step.to, repr(sorted(step.fields.items()))), []).append(step)
    return groups.values()


def _write_times(steps: Sequence[Step]) -> None:
    """Write what differs from job to job: one prepared statement a column. The rows are locked already."""
    table, adapt = Job._meta.db_table, connection.ops.adapt_datetimefield_value
    with connection.cursor() as cursor:
        for column in ("started_at", "finished_at"):
            values = [(adapt(step.times[column]), step.job_id) for step in steps if column in step.times]
            if values:
                statement = f"UPDATE {table} SET {column} = %s WHERE id = %s"  # noqa: S608 (names of our own)
                cursor.executemany(statement, values)


def _release(workload_ids: Sequence[str | None]) -> None:
    for batch in batches([workload_id for workload_id in workload_ids if workload_id is not None]):
        workloads.release_many(batch)
