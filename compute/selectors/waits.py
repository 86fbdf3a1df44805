"""What jobs wait for: resources until those who hold them end, as far as that is known, and datasets that move.

A fixed number of queries, however many jobs wait.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F

from accounts.permissions import Actor
from compute.engine.forecast import Forecast
from compute.engine.holders import Amounts, Holding, Release, find_release
from compute.engine.states import HOLDING, Gate, JobState
from compute.models import Job
from compute.selectors.pool_places import Place, nodes_of
from compute.selectors.resources import sites_by_resource
from compute.selectors.run_times import DURATION_KEYS, forecast_durations, with_duration_keys
from core import clock, units
from datasets.selectors import locality
from datasets.selectors.locality import DataArrival
from scheduler.selectors.workloads import find_pool_ids

_STRANGER = "a job of another project"
_NAMED = 2
_COLUMNS = (
    *("name", "title", "project_id", "template_name", "started_at", "node_name", "gpus", "replicas", "replica_count"),
    *("cpu_millicores", "memory_bytes", "launcher_cpu_millicores", "launcher_memory_bytes", "resource__is_simulated"),
)
# What a job is told that waits for resources that others hold; all other waits end by other means.
_HELD_BY_OTHERS = frozenset({"no_room", "kept_for_another", "promised"})

_End = tuple[datetime | None, bool]


@dataclass(frozen=True)
class Wait:
    """When a node has what a job waits for, at the earliest. Jobs that are ahead of it may be served first.

    `holders` are those who hold it, by name where the actor may see them. `is_limit`: the end is the last holder's time
    limit, and not what is expected of it. `text` says all of it.
    """

    ends_at: datetime
    node: str
    holders: Sequence[str]
    is_limit: bool
    text: str


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


def find_waits(*, actor: Actor, jobs: Sequence[Job]) -> Mapping[str, Wait]:
    """Return by id what is known about the waits of these jobs; a job about which nothing is known is left out.

    Needs their workloads and the answers of these at hand.
    """
    waiting = [
        job
        for job in jobs
        if job.state == JobState.PENDING and job.workload is not None and job.workload.why_code in _HELD_BY_OTHERS
        # Replicas of a gang may wait for several nodes at once.
        if not job.is_gang
    ]
    if not waiting:
        return {}
    resource_ids = {job.resource_id for job in waiting}
    places = nodes_of(actor, resource_ids)
    pool_ids = find_pool_ids([job.workload.pk for job in waiting if job.workload is not None])
    holders = _list_holders(resource_ids)
    durations = forecast_durations(holders)
    ends = {job.pk: _end_of(job, durations.get(job.pk)) for job in holders}
    known: dict[tuple[Place, Amounts], Release | None] = {}
    waits = {}
    for job in waiting:
        ask = Amounts(job.cpu_millicores, job.memory_bytes, job.gpu_milli)
        place = (job.resource_id, pool_ids.get(job.workload_id or "", ""))
        question = (place, ask)
        if question not in known:
            near = (holder for holder in holders if holder.resource_id == job.resource_id)
            held = [holding for holder in near for holding in _holdings(holder, ends)]
            known[question] = find_release(ask, places.get(place, ()), held)
        if (release := known[question]) is not None:
            waits[job.pk] = _wait_of(actor, release, {holder.pk: holder for holder in holders}, ends)
    return waits


def _list_holders(resource_ids: Collection[str]) -> list[Job]:
    """Return the jobs that hold something there, with what counts of each: thousands may run, with large specs."""
    rows = Job.objects.filter(resource__in=sorted(resource_ids), state__in=sorted(HOLDING))
    rows = rows.select_related("resource").only(*_COLUMNS).order_by("pk")
    holders = list(rows.annotate(**{f"of_{key}": F(f"spec__{key}") for key in DURATION_KEYS}))
    for job in holders:
        values = vars(job)
        job.spec = with_duration_keys([values.pop(f"of_{key}") for key in DURATION_KEYS])
    return holders


def _end_of(job: Job, forecast: Forecast | None) -> _End:
    """Return when a job ends, and whether that is its time limit; None for what runs longer than was expected."""
    if job.started_at is None:
        return None, False
    expected = None if forecast is None else job.started_at + timedelta(seconds=forecast.likely_s)
    if expected is not None and expected > clock.now():
        return expected, False
    limit_s = job.spec.get("timeout_s")
    return (None, False) if limit_s is None else (job.started_at + timedelta(seconds=limit_s), True)


def _holdings(job: Job, ends: Mapping[str, _End]) -> list[Holding]:
    return [
        Holding(job.pk, node, *size, gpus, ends[job.pk][0])
        for (node, gpus), size in zip(job.places, job.sizes, strict=False)
    ]


def _wait_of(actor: Actor, release: Release, jobs: Mapping[str, Job], ends: Mapping[str, _End]) -> Wait:
    holders = [jobs[holding.job_id] for holding in release.holdings]
    labels = [job.label if actor.level_in(job.project_id) is not None else _STRANGER for job in holders]
    is_limit = ends[holders[-1].pk][1]
    text = _in_words(release, labels, is_limit=is_limit)
    return Wait(release.ends_at, release.node, labels, is_limit, text)


def _in_words(release: Release, labels: Sequence[str], *, is_limit: bool) -> str:
    more = f" and {len(labels) - _NAMED} more" if len(labels) > _NAMED else ""
    last = "the last of them" if len(labels) > 1 else "which"
    end = "must end" if is_limit else "is expected to end"
    when = units.format_ago(release.ends_at, now=clock.now())
    holders = f"{', '.join(labels[:_NAMED])}{more}"
    return f"What it needs on {release.node} is held by {holders}, {last} {end} {when}. Others may be served first."


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
        job.pk: describe_arrival(known.arrival(commits[job.pk], sites[job.resource_id]))
        for job in waiting
        if job.resource_id in sites
    }


def describe_arrival(arrival: DataArrival) -> DataWait:
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
