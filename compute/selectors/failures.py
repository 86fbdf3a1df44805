"""What the platform could not do for resources and jobs, and when it tries again."""

from collections.abc import Collection, Mapping

from compute.models import Job, Resource
from core import isolation
from core.isolation import FailureView

OBSERVE, PROBE, CLEAN = "compute.observe", "compute.probe", "compute.delete_orphans"
RELEASE, STRANDED, STOP_ALL = "compute.release_volumes", "compute.end_stranded", "compute.stop_all"
"""Items are resources."""
EVICT = "compute.evict"
"""Items are workloads."""
CLAIM = "compute.claim"
"""Items are placements."""
PREPARE, START, EXPLAIN, RECORD = "compute.prepare", "compute.start", "compute.explain_end", "compute.record_job"
STORE_LOG, WATCH_IDLE, NOTE_GPU_USE = "compute.store_log", "compute.watch_idle", "compute.note_gpu_use"
RESIZE, PURGE = "compute.resize", "compute.purge_deleted_jobs"
"""Items are jobs."""
STORE_CHECKPOINT, DELETE_CHECKPOINT = "compute.store_checkpoint", "compute.delete_checkpoint"
"""Items are checkpoints."""
STOP, FORGET, CHECK_GPUS = "compute.stop", "compute.forget", "compute.check_gpus"
"""Items are names of jobs' runs on their resources."""

_RESOURCE_WORK: Mapping[str, str] = {
    OBSERVE: "see what runs on",
    PROBE: "read the nodes of",
    CLEAN: "delete what is left of jobs on",
    RELEASE: "release the volumes of cleared commits on",
    STOP_ALL: "stop jobs on",
}
_JOB_WORK: Mapping[str, str] = {
    PREPARE: "start this job",
    START: "start this job",
    EXPLAIN: "read why this job ended",
    RECORD: "record the state of this job",
    STOP: "stop this job",
    STORE_LOG: "store the log of this job",
    WATCH_IDLE: "see whether this job is used",
    NOTE_GPU_USE: "note what this job uses of its GPUs",
    CHECK_GPUS: "note what this job sees of its GPUs",
    RESIZE: "change how many replicas of this job run",
}


def of_resource(resource: Resource) -> list[FailureView]:
    """Return what fails now for a resource that the caller may see."""
    return of_resources([resource])[resource.pk]


def of_resources(resources: Collection[Resource]) -> Mapping[str, list[FailureView]]:
    """Return what fails now for each of these resources, by their ids."""
    names = {resource.pk: resource.name for resource in resources}
    views: dict[str, list[FailureView]] = {pk: [] for pk in names}
    for failure in isolation.find(_RESOURCE_WORK, names.keys()):
        name = names[failure.item_id]
        views[failure.item_id].append(FailureView.of(failure, f"{_RESOURCE_WORK[failure.kind]} {name}"))
    return views


def of_job(job: Job) -> list[FailureView]:
    """Return what fails now for a job that the caller may see."""
    failures = isolation.find(_JOB_WORK, [job.pk, job.run_name])
    return [FailureView.of(failure, _JOB_WORK[failure.kind]) for failure in failures]
