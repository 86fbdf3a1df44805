"""Puts jobs into the scheduler's queue: when they are submitted, or once the datasets that they read are ready."""

from collections.abc import Mapping, Sequence

from compute.models import Job
from compute.selectors import locality
from scheduler.services import workloads
from scheduler.services.workloads import PodSet, WorkloadRequest


def queue_jobs(jobs: Sequence[Job]) -> None:
    """Enqueue the workloads of jobs, inside the caller's transaction, and note their ids in the objects at hand."""
    missing_bytes = locality.missing_bytes({job.pk: job.spec.get("commits") or () for job in jobs})
    requests = [_workload_of(job, missing_bytes.get(job.pk)) for job in jobs]
    for job, workload_id in zip(jobs, workloads.enqueue_many(requests), strict=True):
        job.workload_id = workload_id


def _workload_of(job: Job, missing_bytes: Mapping[str, int] | None) -> WorkloadRequest:
    return WorkloadRequest(
        project_id=job.project_id,
        name=job.name,
        title=job.title,
        priority=job.priority,
        is_preemptible=job.is_preemptible,
        pod_sets=[
            PodSet(cpu_millicores=job.cpu_millicores, memory_bytes=job.memory_bytes, gpu_milli=job.gpu_milli),
        ],
        resource_id=job.resource_id,
        missing_bytes=missing_bytes,
    )
