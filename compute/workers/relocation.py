"""Jobs that wait move to the first of their pools where they would start now.

One that reads datasets also moves to where it would start much earlier, once they are brought there. A job that has run
stays where its files are.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from django.db import transaction

from accounts.permissions import Actor
from accounts.selectors import is_site_admin
from compute import signals
from compute.engine.states import Gate, JobState
from compute.models import Job, JobEvent, JobVolume, Template
from compute.selectors import jobs as job_selectors
from compute.selectors import pool_places
from compute.selectors.start_forecasts import Forecaster, JobFacts, moves_by, size_of
from compute.services import journal, queueing, shapes
from compute.services.shapes import Ask
from core import clock, isolation, moves
from core.errors import PlatformError
from core.tasks import send_on_commit
from core.units import format_duration
from datasets.selectors import commits as dataset_commits
from scheduler.selectors.resource_pools import ResourcePools
from scheduler.services import workloads

RELOCATE = "compute.relocate"
"""The kind of failures; items are jobs."""

_MOST_TRIED = 20
"""So many jobs are tried elsewhere in one round, the oldest first."""
_MOST_ALIKE = 5
"""So many of them are alike: what holds one of them back holds back the others, and not those of another size."""
_KIND = (
    *("project_id", "resource_id", "spec__pool", "priority", "is_preemptible"),
    *("cpu_millicores", "memory_bytes", "gpu_milli", "replica_count"),
)
_MOST_EVENTS = 50
"""A job of which so much is told moves no more: forecast and cycles may not agree on it for ever."""
_MOVE = ":move"
"""What is held of its data for the move of a job, beside what the job holds."""
_SYSTEM = Actor.system("relocation")


def move_waiting(forecaster: Forecaster, waiting: Sequence[JobFacts]) -> None:
    """Move the jobs that would start elsewhere now and not where they wait."""
    # The job of a step is moved by its run.
    movable = (
        job
        for job in waiting
        if job["kind"] == job_selectors.SUBMITTED and moves_by(job) and not forecaster.is_about_to_start(job)
    )
    tried = {job["pk"]: job for job in islice(_some_of_each_kind(movable), _MOST_TRIED)}
    if tried:
        rows = Job.objects.filter(pk__in=tried, starts=0, event_seq__lt=_MOST_EVENTS, gate__in=("", Gate.DATA))
        move = partial(_move, forecaster, tried, forecaster.count_promised())
        isolation.for_each(RELOCATE, list(rows.order_by("pk").select_related("resource")), move, key=lambda job: job.pk)


def _some_of_each_kind(jobs: Iterable[JobFacts]) -> Iterator[JobFacts]:
    counts: Counter[object] = Counter()
    for job in jobs:
        kind = (*(job[name] for name in _KIND), *job["spec__pools"], *(job["spec__commits"] or ()))
        counts[kind] += 1
        if counts[kind] <= _MOST_ALIKE:
            yield job


def _move(forecaster: Forecaster, tried: Mapping[str, JobFacts], moved: Counter[str], job: Job) -> None:
    # What was moved to a place in this round counts there, and what steps may move, in jobs as large as this one.
    size = size_of(tried[job.pk])
    for template in _list_places(job):
        place = pool_places.describe(template.resource.name, template.pool)
        before = -(-moved[place] // size)
        there_s = forecaster.start_s(tried[job.pk], template, before=before)
        if there_s <= 0:
            reason = "it can start now"
        elif job.spec.get("commits") and moves.is_much_earlier(there_s, forecaster.present_s(tried[job.pk])):
            with_data = "" if forecaster.has_data(tried[job.pk], template) else ", with the time to bring its data"
            reason = f"it would start in about {format_duration(there_s)}{with_data}"
        else:
            continue
        if _bring_and_requeue(job, template, reason):
            moved[place] += size
            return


def _list_places(job: Job) -> list[Template]:
    """Return where else a job could run, those of its first pool first."""
    # What its owner may no longer use is no place for it.
    actor = Actor(None, job.submitted_by, is_site_admin=is_site_admin(job.submitted_by))
    places = shapes.list_places(actor=actor, ask=_ask_of(job))
    here = job.resource
    # A job on nodes that exist is never simulated.
    pools = ResourcePools()
    present = here.pk, pools.find(here.pk, pool_places.find_pool(job)).id
    elsewhere = [each for each in places if pool_places.place_of(each, pools, {}) != present]
    others = [each for each in elsewhere if each.resource.is_simulated == here.is_simulated]
    if job.spec.get("commits"):
        return others
    ready = pool_places.find_with_capacity(others) if others else frozenset()
    return [each for each in others if (each.pk, each.pool) in ready]


def _ask_of(job: Job) -> Ask:
    """Return what a job asked for when it was submitted."""
    spec = job_selectors.get_spec(job)
    return Ask(
        gpu_milli=job.gpu_milli,
        cpu_millicores=spec.own_cpu_millicores,
        memory_bytes=spec.own_memory_bytes,
        pools=spec.pools,
        replicas=spec.replicas,
        placing=spec.placing,
        needs_image=bool(spec.image) or not spec.command,
        commits=spec.commits,
        starts_early=bool(spec.early),
        keeps_checkpoints=bool(spec.checkpoint),
        ports=spec.ports,
        volumes=spec.volumes,
    )


def _bring_and_requeue(job: Job, template: Template, reason: str) -> bool:
    """Queue a job at another place, its data asked for there; False where it no longer waits, or that is refused."""
    commit_ids: Sequence[str] = job.spec.get("commits") or ()
    commits = dataset_commits.list_by_id(commit_ids)
    if len(commits) < len(commit_ids):
        return False  # one is deleted; what the job holds of it is all that is left
    request = partial(queueing.request_data, _SYSTEM, template.resource, commits, job_id=job.pk, job_name=job.name)
    try:
        request(purpose=_MOVE)  # it measures and plans, which takes too long for what holds a lock
        return _requeue(job, template, request, reason)
    except PlatformError:
        return False
    finally:
        queueing.release_data(_SYSTEM, job.pk, purpose=_MOVE)


@transaction.atomic
def _requeue(job: Job, template: Template, request: Callable[[], Sequence[Any]], reason: str) -> bool:
    """Queue a job at another place, as old as it is; False where it was placed meanwhile, or waits no more."""
    (locked,) = journal.lock_jobs([job.pk])
    if locked.state != JobState.PENDING or (locked.workload_id, locked.gate) != (job.workload_id, job.gate):
        return False
    enqueued_at = job.created_at if job.workload is None else job.workload.enqueued_at
    if job.workload is not None and not workloads.withdraw_many([job.workload.pk]):
        return False
    here = pool_places.describe(job.resource.name, job.spec.get("pool") or "")
    there = pool_places.describe(template.resource.name, template.pool)
    message = f"Moved from {here} to {there}, where {reason}."
    copies = request()
    queueing.release_data(_SYSTEM, job.pk, keep=copies)
    old_spec = job_selectors.get_spec(job)
    spec, gate = queueing.mount_data(old_spec, copies, is_early=bool(old_spec.early))
    job.resource, job.template_name = template.resource, template.full_name
    job.template = template if template.is_stored else None
    job.cpu_millicores, job.memory_bytes = template.cpu_millicores, template.memory_bytes
    job.spec = {**spec.to_json(), "pod": template.pod, "pool": template.pool}
    job.event_seq = locked.event_seq + 1
    job.workload, job.gate, job.reason = (
        None,
        gate or "",
        queueing.describe_data_wait(template.resource) if gate else "",
    )
    if gate is None:
        queueing.queue_again(job, enqueued_at=enqueued_at)
    JobVolume.objects.filter(job=job).delete()
    queueing.note_volumes([job])
    columns = (
        *("resource", "template", "template_name", "cpu_millicores", "memory_bytes"),
        *("spec", "event_seq", "workload", "gate", "reason"),
    )
    Job.objects.filter(pk=job.pk).update(**{name: getattr(job, name) for name in columns})
    JobEvent.objects.create(job=job, seq=job.event_seq, state=job.state, message=message, at=clock.now())
    send_on_commit(signals.job_changed, job_ids=[job.pk], stopped_ids=[])
    return True
