"""How long jobs waited, ran and were suspended, all of their runs together. One query for any number of jobs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Protocol

from django.db.models import DurationField, Exists, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from compute.engine.run_history import RunHistory, read_history
from compute.engine.states import JobState
from compute.models import Job, JobEvent
from core import clock, orm
from core.times import Interval, Times, measure

__all__ = ["RunHistory", "find_histories", "measure_job", "measure_times", "ran_before"]

_BREAKS = (JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED)


class Timed(Protocol):
    """A job, or what another app records of one: when it was made, and when its present run began and ended."""

    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


def measure_times(jobs: Collection[Job]) -> dict[str, Times | None]:
    """Return by id how long these jobs waited, ran and were suspended, and took in all. For jobs that may be seen."""
    histories = find_histories({job.pk for job in jobs})
    runs_of = _runs_of_parts([job.pk for job in jobs if job.has_parts and job.pk in histories])
    return {job.pk: measure_job(job, histories.get(job.pk), runs_of.get(job.pk)) for job in jobs}


def find_histories(job_ids: Collection[str]) -> Mapping[str, RunHistory]:
    """Return by id what those of these jobs did before their present runs that were evicted or suspended."""
    histories: dict[str, RunHistory] = {}
    for batch in orm.in_batches(sorted(job_ids)):
        histories |= {
            pk: read_history(created_at, (event[2:] for event in events))
            for (pk, created_at), events in groupby(_breaks_of(batch), key=itemgetter(0, 1))
        }
    return histories


def ran_before() -> Coalesce:
    """Return, for rows of an app above, how long the job whose id is in `job` ran before its present run."""
    of_job = Job.objects.filter(pk=OuterRef("job")).values("ran_before")
    return Coalesce(Subquery(of_job), timedelta(0), output_field=DurationField())


def measure_job(
    job: Timed, history: RunHistory | None, runs_of_parts: Sequence[Interval] | None = None
) -> Times | None:
    """Return how long a job waited, ran and was suspended, with the runs of its history and of its parts."""
    intervals = _intervals(job, history)
    if runs_of_parts is not None:
        intervals = [*(replace(each, started_at=None) for each in intervals), *runs_of_parts]
    suspensions = [] if history is None else [(start, end or job.finished_at) for start, end in history.suspensions]
    return measure(intervals, suspensions=suspensions, now=clock.now())


def _breaks_of(job_ids: Collection[str]) -> Iterable[tuple[str, datetime, str, datetime]]:
    suspended = JobEvent.objects.filter(job=OuterRef("pk"), state=JobState.SUSPENDED)
    broken = Job.objects.filter(Q(evictions__gt=0) | Exists(suspended), pk__in=job_ids).order_by()
    events = JobEvent.objects.filter(job__in=broken, state__in=_BREAKS).order_by("job_id", "seq")
    return events.values_list("job_id", "job__created_at", "state", "at")


def _runs_of_parts(job_ids: Collection[str]) -> Mapping[str, list[Interval]]:
    """Return when the parts of jobs waited and ran, by the ids of those jobs."""
    if not job_ids:
        return {}
    parts = list(Job.objects.filter(part_of__in=job_ids).defer("spec"))
    histories = find_histories({part.pk for part in parts})
    runs: dict[str, list[Interval]] = {job_id: [] for job_id in job_ids}
    for part in parts:
        if part.part_of_id is not None:
            runs[part.part_of_id] += _intervals(part, histories.get(part.pk))
    return runs


def _intervals(job: Timed, history: RunHistory | None) -> list[Interval]:
    if history is None:
        return [Interval(job.created_at, job.started_at, job.finished_at)]
    present = [] if history.queued_at is None else [Interval(history.queued_at, job.started_at, job.finished_at)]
    return [*history.runs, *present]
