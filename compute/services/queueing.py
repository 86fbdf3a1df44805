"""Brings jobs into the scheduler's queue, and the datasets that they read to where they run.

Those are asked for on a cache site of its resource, and held there until the job has ended. A job is queued when it is
submitted, or once its datasets are ready; its place in line is that of its submission in both cases. One that is
resumed goes to the end of the line.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from accounts.permissions import Actor
from compute.engine.job_spec import JobSpec, Mount, SourceKind, Tree, source_from_json
from compute.engine.placing import Placing, PodOptions
from compute.engine.states import Gate
from compute.models import Job, JobVolume, Resource
from compute.selectors import resources
from compute.selectors.jobs import HOLDER
from compute.selectors.templates import launcher_of, placing_of
from core.prepared import insert
from datasets.services import caches
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
    (request_data,) = _requests_of([job])
    # The name of a workload is used once.
    again = replace(request_data, name=f"{job.name}~{job.event_seq}", title=job.label, enqueued_at=enqueued_at)
    (job.workload_id,) = workloads.enqueue_many([again])


def _requests_of(jobs: Sequence[Job]) -> list[WorkloadRequest]:
    missing_bytes = resources.count_missing_bytes({job.pk: job.spec.get("commits") or () for job in jobs})
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


def request_data(
    actor: Actor, resource: Resource, commits: Sequence[Any], *, job_id: str, job_name: str, purpose: str = ""
) -> list[Any]:
    """Ask for commits where jobs of a resource read them, hold them there for a job, and return the cached commits.

    What is held for a `purpose` is held beside what the job itself holds. Raises what `caches.request_nearest` raises.
    """
    sites = resources.list_readable_sites(resource) if commits else []
    holder, why = f"{HOLDER}{job_id}{purpose}", f"read by {job_name}"
    return [
        caches.request_nearest(actor=actor, commit=commit, sites=sites, holder=holder, why=why) for commit in commits
    ]


def release_data(actor: Actor, job_id: str, *, purpose: str = "", keep: Sequence[Any] = ()) -> None:
    """End what a job holds, but for the cached commits to `keep`."""
    caches.release_holds(actor=actor, holder=f"{HOLDER}{job_id}{purpose}", keep=[copy.pk for copy in keep])


def mount_data(spec: JobSpec, copies: Sequence[Any], *, is_early: bool) -> tuple[JobSpec, Gate | None]:
    """Return what a job is that reads these cached commits, and the gate that it waits behind until they are ready.

    While the place of one is not known, its mount says which tree it will hold. `is_early`: the job starts once the
    first files are there.
    """
    sources = [copy.early_source if is_early else copy.source for copy in copies]
    mounts = [
        Mount(
            copy.dataset.name,
            Tree(copy.dataset_id, copy.commit.root) if source is None else source_from_json(source),
        )
        for copy, source in zip(copies, sources, strict=True)
    ]
    early = {copy.dataset.name: copy.pk for copy in copies} if is_early else {}
    return replace(spec, data=tuple(mounts), early=early), None if all(sources) else Gate.DATA


def describe_data_wait(resource: Resource) -> str:
    """Say that a job waits for its data."""
    return f"Its data is being brought to {resource.name}."


def note_volumes(jobs: Sequence[Job]) -> None:
    """Note by which claims jobs read their data."""
    sources = ((job, mount_data["source"]) for job in jobs for mount_data in job.spec["data"])
    claims = {(job.pk, source["claim"]) for job, source in sources if source["kind"] == SourceKind.VOLUME}
    insert([JobVolume(job_id=job_id, claim=claim) for job_id, claim in sorted(claims)])
