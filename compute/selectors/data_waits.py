"""What is told of the datasets that a job waits for: bytes, rate and time, in figures and in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from compute.engine.states import Gate, JobState
from compute.models import Job
from compute.selectors.resources import sites_by_resource
from core import clock
from datasets.selectors import locality
from datasets.selectors.locality import DataArrival


@dataclass(frozen=True)
class DataWait:
    """What of a job's datasets still moves to a cache site. `text` says all of it.

    `is_assumed`: the rate was neither declared nor measured. `rate_bytes_s` and `ready_at` None: the site is gone or
    away.
    """

    site: str
    missing_bytes: int
    total_bytes: int
    rate_bytes_s: float | None
    ready_at: datetime | None
    text: str
    is_assumed: bool = False


def find_data_waits(jobs: Sequence[Job]) -> Mapping[str, DataWait]:
    """Return by id what jobs that wait for their datasets wait for. For callers that have checked who may know."""
    pending = [job for job in jobs if job.state == JobState.PENDING and job.workload_id is None]
    waiting = [job for job in pending if job.gate != Gate.PARTS]
    if not waiting:
        return {}
    sites = sites_by_resource({job.resource_id for job in waiting})
    commits = {job.pk: job.spec.get("commits") or () for job in waiting}
    known = locality.read_locality(
        {id_ for ids in commits.values() for id_ in ids}, {site for names in sites.values() for site in names}
    )
    return {
        job.pk: describe(known.arrival(commits[job.pk], sites[job.resource_id]))
        for job in waiting
        if job.resource_id in sites
    }


def describe(arrival: DataArrival) -> DataWait:
    """Return an arrival as people and programs are told it now."""
    now = clock.now()
    return DataWait(
        site=arrival.site,
        missing_bytes=arrival.missing_bytes,
        total_bytes=arrival.total_bytes,
        rate_bytes_s=arrival.rate_bytes_s,
        ready_at=arrival.ready_at(now),
        text=arrival.describe(now),
        is_assumed=arrival.is_assumed,
    )
