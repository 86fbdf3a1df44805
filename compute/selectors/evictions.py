"""Receipts of evictions for pages: a job that was deleted since has no page that a receipt could lead to."""

from collections.abc import Sequence
from dataclasses import replace

from compute.models import Job
from scheduler.selectors.evictions import EvictionView, NamedJob


def mark_deleted(views: Sequence[EvictionView]) -> list[EvictionView]:
    """Return receipts in which jobs that were deleted have no `name`, and labels that say so."""
    workloads = {key for view in views for key in (view.row.workload_id, view.row.claimant_id)}
    deleted = Job.objects.filter(workload_id__in=workloads, deleted_at__isnull=False)
    gone = set(deleted.values_list("workload_id", flat=True))

    def shown(job: NamedJob, workload_id: str | None) -> NamedJob:
        return replace(job, name="", label=f"{job.label} (deleted)") if workload_id in gone else job

    return [
        replace(
            view,
            job=shown(view.job, view.row.workload_id),
            claimant=view.claimant and shown(view.claimant, view.row.claimant_id),
        )
        for view in views
    ]
