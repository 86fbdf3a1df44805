"""Keeps the scheduler's figures true: what of its data each waiting workload lacks, resource by resource."""

from collections.abc import Sequence

from compute.models import Job
from compute.selectors import locality
from core import isolation, orm
from scheduler.selectors import workloads as workload_selectors
from scheduler.services import workloads


def update_missing_bytes() -> None:
    """Compare what pending workloads lack of their data with what was told of them, and tell what changed."""
    (pending,) = workload_selectors.find_pending_with_data()
    ids = list(pending.values_list("pk", flat=True))
    for batch in orm.in_batches(ids):
        isolation.in_batch("compute.update_missing_bytes", batch, _update)


def _update(workload_ids: Sequence[str]) -> list[str]:
    jobs = Job.objects.filter(workload__in=workload_ids).order_by()
    commits_of = {pk: commits or () for pk, commits in jobs.values_list("workload_id", "spec__commits")}
    return workloads.set_missing_bytes(locality.missing_bytes(commits_of))
