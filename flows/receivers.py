"""Answers of flows to signals of compute and datasets that need a look-up first: which runs to enqueue."""

from datetime import datetime

from django.dispatch import receiver

from compute.signals import files_due, job_changed
from datasets.signals import cached_commit_changed
from flows.workers import cleaning, news


@receiver(job_changed, dispatch_uid="flows.job_changed")
def advance_runs_of_jobs(job_ids: list[str], **_news: object) -> None:
    """Enqueue the runs whose jobs changed state."""
    news.jobs_changed(job_ids)


@receiver(cached_commit_changed, dispatch_uid="flows.cached_commit_changed")
def advance_runs_waiting_for_data(cached_commit_id: str, **_news: object) -> None:
    """Enqueue the runs that wait for that commit."""
    news.cached_commit_changed(cached_commit_id)


@receiver(files_due, dispatch_uid="flows.files_due")
def keep_files_of_recent_runs(job_id: str, unused_since: datetime, **_question: object) -> bool:
    """Keep the outputs of steps that others may still read."""
    return cleaning.needs_files(job_id, unused_since=unused_since)
