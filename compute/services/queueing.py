"""Puts jobs into the scheduler's queue: when they are submitted, or once the datasets that they read are ready.

Their place in line is that of their submission in both cases. One that is resumed goes to the end of the line.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from compute.engine.placing import Placing, PodOptions
from compute.models import Job
from compute.selectors import locality
from compute.selectors.pod_sets import launcher_of, placing_of
from scheduler.services import workloads
from scheduler.services.workloads import PodSet, WorkloadRequest


def queue_jobs(jobs: Sequence[Job]) -> None:
    """Enqueue the workloads of jobs, inside the caller's transaction, and note their ids in the objects at hand."""
    for job, workload_id in zip(jobs, workloads.enqueue_many(_requests_of(jobs)), strict=True):
        job.workload_id = workload_id


def queue_again(job: Job, *, enqueued_at: datetime | None = None) -> None:
    """Enqueue a job that was queued before, inside the caller's transaction.

    Its place in line is that of one enqueued at `enqueued_at`; None: behind those that wait already.
    """
    (request,) = _requests_of([job])
    # The name of a workload is used once.
    again = replace(request, name=f"{job.name}~{job.event_seq}", title=job.label, enqueued_at=enqueued_at)
    (job.workload_id,) = workloads.enqueue_many([again])


def _requests_of(jobs: Sequence[Job]) -> list[WorkloadRequest]:
    missing_bytes = locality.missing_bytes({job.pk: job.spec.get("commits") or () for job in jobs})
    return [_workload_of(job, missing_bytes.get(job.pk)) for job in jobs]


def _workload_of(job: Job, missing_bytes: Mapping[str, int] | None) -> WorkloadRequest:
    placing, pod = Placing.read(job.spec.get("placing")), PodOptions.read(job.spec.get("pod"))
    launcher = launcher_of(placing, pod.parsed_tolerations)
    return WorkloadRequest(
        project_id=job.project_id,
        name=job.name,
        title=job.title,
        priority=job.priority,
        is_preemptible=job.is_preemptible,
        pod_sets=[
            PodSet(
                name="replica" if job.is_gang else "",
                count=job.replica_count,
                cpu_millicores=job.cpu_millicores,
                memory_bytes=job.memory_bytes,
                gpu_milli=job.gpu_milli,
                **placing_of(placing, pod),
            ),
            # The smaller one comes last: it finds a place beside the larger ones.
            *([launcher] if launcher is not None else []),
        ],
        resource_id=job.resource_id,
        missing_bytes=missing_bytes,
        enqueued_at=job.created_at,
        price_per_hour=_price_of(job),
        pool=job.spec.get("pool") or "",
    )


def _price_of(job: Job) -> float:
    """Return what an hour of all replicas of a job costs; 0 where its template has no price, or it has no template."""
    price = None if job.template is None else job.template.price_per_hour
    return 0.0 if price is None else job.replica_count * float(price)
