"""Answers of flows to signals of compute and datasets that need a look-up first: which runs to enqueue."""

from datetime import datetime

from django.dispatch import receiver

from compute.services.jobs import HostFolder
from compute.signals import files_due, job_changed
from datasets.signals import cached_commit_changed
from experiments.signals import outputs_read, outputs_stored
from flows.workers import advance, cleaning, handover


@receiver(job_changed, dispatch_uid="flows.job_changed")
def advance_runs_of_jobs(stopped_ids: list[str], **_news: object) -> None:
    """Enqueue the runs whose jobs have stopped."""
    advance.enqueue_runs_of_jobs(stopped_ids)


@receiver(cached_commit_changed, dispatch_uid="flows.cached_commit_changed")
def advance_runs_waiting_for_data(cached_commit_id: str, **_news: object) -> None:
    """Enqueue the runs that wait for that commit."""
    advance.enqueue_runs_waiting_for(cached_commit_id)


@receiver(outputs_stored, dispatch_uid="flows.outputs_stored")
def end_run_with_stored_outputs(run_id: str, **_news: object) -> None:
    """Wake a run that only waited for its outputs to be stored."""
    advance.wake_run_with_stored_outputs(run_id)


@receiver(outputs_read, dispatch_uid="flows.outputs_read")
def find_changed_outputs(run_id: str, source: HostFolder, **_question: object) -> tuple[str, ...]:
    """Return which outputs look different from how their step left them."""
    return handover.find_changed_outputs(run_id, source) if run_id else ()


@receiver(files_due, dispatch_uid="flows.files_due")
def keep_files_of_recent_runs(job_id: str, unused_since: datetime, **_question: object) -> bool:
    """Keep the outputs of steps that others may still read."""
    return cleaning.needs_files(job_id, unused_since=unused_since)
