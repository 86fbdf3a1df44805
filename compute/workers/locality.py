"""Keeps the scheduler's figures true: what of its data each waiting workload lacks, resource by resource."""

from collections.abc import Sequence

from compute.models import Job
from compute.selectors import locality
from core import isolation
from scheduler.selectors import workloads as workload_selectors
from scheduler.services import workloads

_BATCH = 500


def update_missing_bytes() -> None:
    """Compare what pending workloads lack of their data with what was told of them, and tell what changed."""
    (pending,) = workload_selectors.find_pending_with_data()
    ids = list(pending.values_list("pk", flat=True))
    for start in range(0, len(ids), _BATCH):
        isolation.in_batch("compute.update_missing_bytes", ids[start : start + _BATCH], _update)


def _update(workload_ids: Sequence[str]) -> list[str]:
    jobs = Job.objects.filter(workload__in=workload_ids).order_by()
    commits_of = {pk: commits or () for pk, commits in jobs.values_list("workload_id", "spec__commits")}
    return workloads.set_missing_bytes(locality.missing_bytes(commits_of))
