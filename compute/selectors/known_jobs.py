"""Jobs that the task of this thread has written, which the next tasks of a hand-over need not read again.

Those whose transaction was rolled back are among them, and others may have changed them since. So what is done with one
is compared with its row, or concerns what does not change any more.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import DEFAULT_DB_ALIAS

from compute.models import Job
from core import tasks

_QUEUED, _ENDED = "compute.queued", "compute.ended"
COLUMNS = tuple(field.attname for field in Job._meta.concrete_fields)


def job_of(columns: tuple[Any, ...]) -> Job:
    """Return the row of a job from its `COLUMNS`."""
    return Job.from_db(DEFAULT_DB_ALIAS, COLUMNS, columns)


def note_queued(jobs: Iterable[Job]) -> None:
    """Keep new jobs, with their templates and resources, until the task ends."""
    _note(_QUEUED, {str(job.workload_id): job for job in jobs})


def find_queued(workload_id: str) -> Job | None:
    """Return the new job of a workload, if this task has queued it."""
    return _find(_QUEUED, workload_id)


def note_ended(jobs: Iterable[Job]) -> None:
    """Keep jobs that have ended until the task ends."""
    _note(_ENDED, {job.pk: job for job in jobs})


def find_ended(job_id: str) -> Job | None:
    """Return a job, if this task has ended it."""
    return _find(_ENDED, job_id)


def _note(key: str, jobs: Mapping[str, Job]) -> None:
    if (memo := tasks.memo()) is not None:
        memo.setdefault(key, {}).update(jobs)


def _find(key: str, job_id: str) -> Job | None:
    memo: Mapping[str, Any] = tasks.memo() or {}
    job: Job | None = memo.get(key, {}).get(job_id)
    return job
