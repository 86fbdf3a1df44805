"""A job in the words and columns of Run:AI."""

import time
from collections.abc import Sequence
from datetime import datetime

from nearline.cli import formats
from nearline.models import Job

COLUMNS = (
    *("NAME", "STATUS", "AGE", "NODE", "IMAGE", "TYPE", "PROJECT", "USER", "GPUs"),
    *("CREATED BY CLI", "SERVICE URL(S)"),
)
_STATUSES = {
    "pending": "Pending",
    "starting": "ContainerCreating",
    "running": "Running",
    "leaving": "Terminating",
    "suspending": "Terminating",
    "stopping": "Terminating",
    "suspended": "Suspended",
    "succeeded": "Succeeded",
    "failed": "Fail",
    "cancelled": "Deleted",
    "lost": "Unknown",
}
_BUILD_PREEMPTIBLE = 75
_LIMITS = frozenset({"timeout", "time_limit", "idle_limit"})


def row_of(job: Job, urls: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the cells of a job in a list. Nobody notes by what means a job was submitted."""
    return (
        *(
            name_of(job),
            status_of(job),
            age_of(job.created_at),
            formats.nodes(job.nodes or (job.node,)) or "-",
            job.image or "-",
            type_of(job),
        ),
        *(job.project or "-", job.submitted_by, gpus_of(job), "-", ", ".join(urls) or "-"),
    )


def name_of(job: Job) -> str:
    """Return what a person called a job: its own name is another one where a deleted job had that before."""
    return job.label if job.label and job.raw.get("kind") == "job" else job.name


def status_of(job: Job) -> str:
    """Return Run:AI's word for the state of a job."""
    if job.is_unknown:
        return "Unknown"
    if job.state in {"failed", "cancelled"} and job.reason_code in _LIMITS:
        return "TimedOut"
    return _STATUSES.get(job.state, job.state)


def is_deleted(job: Job) -> bool:
    """Whether a person has ended a job, which Run:AI then lists no more. What a limit ended is listed."""
    return job.state == "cancelled" and job.reason_code not in _LIMITS


def type_of(job: Job) -> str:
    """Return whether a job is training or interactive work; the latter says itself whether it may be preempted."""
    if not job.is_preemptible:
        return "Interactive"
    return "Interactive-Preemptible" if job.priority == _BUILD_PREEMPTIBLE else "Train"


def urls_of(job: Job, server: str) -> list[str]:
    """Return where a browser opens the ports of a job."""
    return [f"{server}{path}" for path in job.raw.get("port_urls", {}).values()]


def gpus_of(job: Job) -> str:
    """Return what a job asks of GPUs, over all that runs of it at once: a number, a share by memory, or a slice."""
    if job.mig_profile:
        return job.mig_profile
    if job.gpu_memory_bytes:
        return f"{job.gpu_memory_bytes / 2**30:.3g}GiB"
    return f"{job.gpu_milli * job.replica_count * job.parallelism / 1000:g}"


def held_of(job: Job) -> str:
    """Return the GPUs that the replicas, or the parts, of a running job hold."""
    if job.completions > 1 or job.parts_running:
        return f"{job.parts_running * job.gpu_milli / 1000:g}"
    held = [gpus for replica in job.replicas for gpus in replica["gpus"]] or job.raw.get("gpus", ())
    return f"{sum(milli for _, milli in held) / 1000:g}"


def age_of(moment: datetime | None) -> str:
    """Return how long ago a moment was, with one unit: `45s`, `3m`, `2h`, `4d`."""
    if moment is None:
        return "-"
    seconds = max(0, int(time.time() - moment.timestamp()))
    for unit, length_s in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length_s:
            return f"{seconds // length_s}{unit}"
    return f"{seconds}s"


def duration_of(job: Job) -> str:
    """Return how long a job ran, or runs already."""
    if job.started_at is None:
        return "-"
    end_s = time.time() if job.finished_at is None else job.finished_at.timestamp()
    return formats.duration(max(0.0, end_s - job.started_at.timestamp()))
