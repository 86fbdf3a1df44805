"""Jobs that wait move to the first of their pools where they would start now.

A job that has run stays where its files are, and one that reads datasets stays where they were brought for it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from django.db import transaction

from accounts.actor import Actor
from accounts.selectors import is_site_admin
from compute import signals
from compute.engine.states import JobState
from compute.models import Job, JobEvent, Template
from compute.selectors import capacity
from compute.selectors import jobs as job_selectors
from compute.selectors.start_forecasts import Forecaster, JobFacts
from compute.services import journal, queueing, shapes
from compute.services.shapes import Ask
from core import clock, isolation
from core.signals import send_on_commit
from scheduler.services import workloads

RELOCATE = "compute.relocate"
"""The kind of failures; items are jobs."""

_MOST_TRIED = 20
"""So many jobs are tried elsewhere in one round, the oldest first."""
_MOST_ALIKE = 5
"""So many of them are alike: what holds one of them back holds back the others, and not those of another size."""
_KIND = (
    *("project_id", "resource_id", "priority", "is_preemptible"),
    *("cpu_millicores", "memory_bytes", "gpu_milli", "replica_count"),
)
_MOST_EVENTS = 50
"""A job of which so much is told moves no more: forecast and cycles may not agree on it for ever."""


def move_waiting(forecaster: Forecaster, waiting: Sequence[JobFacts]) -> None:
    """Move the jobs that would start elsewhere now and not where they wait."""
    movable = (job for job in waiting if _may_move(job) and not forecaster.is_about_to_start(job))
    tried = {job["pk"]: job for job in islice(_some_of_each_kind(movable), _MOST_TRIED)}
    if tried:
        rows = Job.objects.filter(pk__in=tried, starts=0, event_seq__lt=_MOST_EVENTS).order_by("pk")
        move = partial(_move, forecaster, tried, Counter())
        isolation.for_each(RELOCATE, list(rows.select_related("resource")), move, key=lambda job: job.pk)


def _may_move(job: JobFacts) -> bool:
    is_queued = job["workload_id"] is not None
    return is_queued and bool(job["spec__pools"]) and not (job["spec__commits"] or job["evictions"])


def _some_of_each_kind(jobs: Iterable[JobFacts]) -> Iterator[JobFacts]:
    counts: Counter[object] = Counter()
    for job in jobs:
        kind = (*(job[name] for name in _KIND), *job["spec__pools"])
        counts[kind] += 1
        if counts[kind] <= _MOST_ALIKE:
            yield job


def _move(forecaster: Forecaster, tried: Mapping[str, JobFacts], moved: Counter[str], job: Job) -> None:
    # What was moved to a place in this round counts there, in jobs as large as this one.
    size = job.replica_count * (job.gpu_milli or job.cpu_millicores)
    for template in _list_places(job):
        before = -(-moved[template.resource_id] // size)
        if forecaster.starts_now(tried[job.pk], template, before=before):
            if _requeue(job, template):
                moved[template.resource_id] += size
            return


def _list_places(job: Job) -> list[Template]:
    """Return where else a job could run, those of its first pool first."""
    # What its owner may no longer use is no place for it.
    actor = Actor(None, job.submitted_by, is_site_admin=is_site_admin(job.submitted_by))
    places = shapes.list_places(actor=actor, ask=_ask_of(job))
    here = job.resource
    # A job on nodes that exist is never simulated.
    elsewhere = [each for each in places if each.resource_id != here.pk]
    others = [each for each in elsewhere if each.resource.is_simulated == here.is_simulated]
    ready = capacity.find_with_capacity(others) if others else frozenset()
    return [each for each in others if each.pk in ready]


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
        reads_data=bool(spec.commits),
        keeps_checkpoints=bool(spec.checkpoint),
        ports=spec.ports,
        volumes=spec.volumes,
    )


@transaction.atomic
def _requeue(job: Job, template: Template) -> bool:
    """Queue a job at another place, as old as it is; False where it was placed meanwhile, or waits no more."""
    (locked,) = journal.lock_jobs([job.pk])
    if locked.state != JobState.PENDING or locked.workload_id != job.workload_id or job.workload is None:
        return False
    if not workloads.withdraw_many([job.workload.pk]):
        return False
    message = f"Moved from {job.resource.name} to {template.resource.name}, where it can start now."
    job.resource, job.template_name = template.resource, template.full_name
    job.template = template if template.is_stored else None
    job.cpu_millicores, job.memory_bytes = template.cpu_millicores, template.memory_bytes
    job.spec = {**job.spec, "pod": template.pod}
    job.event_seq = locked.event_seq + 1
    queueing.queue_again(job, enqueued_at=job.workload.enqueued_at)
    columns = (
        *("resource", "template", "template_name", "cpu_millicores", "memory_bytes"),
        *("spec", "event_seq", "workload"),
    )
    Job.objects.filter(pk=job.pk).update(**{name: getattr(job, name) for name in columns})
    JobEvent.objects.create(job=job, seq=job.event_seq, state=job.state, message=message, at=clock.now())
    send_on_commit(signals.job_changed, job_ids=[job.pk], stopped_ids=[])
    return True
