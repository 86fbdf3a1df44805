"""Jobs that wait for their datasets: each is queued once all are ready, and fails when one cannot be brought.

What a job reads early need only have begun to come. What a job waits for are the cached commits that it holds. Asked
again as often as one likes: the rows say what is due. The scheduler is told what of its data each job in its queue
lacks, resource by resource.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from django.db import transaction
from django.db.models import QuerySet

from accounts.permissions import Actor
from compute.engine.job_spec import Mount, source_from_json
from compute.engine.states import Gate, JobState, ReasonCode
from compute.errors import UnmountableSource
from compute.models import Job
from compute.selectors import resources
from compute.selectors.jobs import get_spec
from compute.services import jobs, journal
from compute.services.submissions import HOLDER
from core import clock, isolation, orm
from datasets.selectors import caches
from datasets.selectors.caches import HeldCopy
from scheduler.selectors import workloads as workload_selectors
from scheduler.services import workloads

_SYSTEM = Actor.system("data waits")


def find_waiting() -> list[QuerySet[Job]]:
    """Return the jobs that wait for their datasets."""
    return [Job.objects.filter(workload=None, is_live=True, state=JobState.PENDING, gate=Gate.DATA)]


def queue_ready_jobs() -> None:
    """Queue the jobs whose datasets are ready, and end those that can never get one."""
    (waiting,) = find_waiting()
    rows = list(waiting.order_by("pk"))
    copies = caches.list_held([HOLDER + job.pk for job in rows]) if rows else {}
    isolation.for_each("compute.queue_ready_jobs", rows, partial(_proceed, copies=copies), key=lambda job: job.pk)


def update_missing_bytes() -> None:
    """Compare what pending workloads lack of their data with what was told of them, and tell what changed."""
    (pending,) = workload_selectors.find_pending_with_data()
    ids = list(pending.values_list("pk", flat=True))
    for batch in orm.in_batches(ids):
        isolation.in_batch("compute.update_missing_bytes", batch, _update_missing_bytes)


def _proceed(job: Job, *, copies: Mapping[str, Sequence[HeldCopy]]) -> None:
    held = {copy.commit_id: copy for copy in copies.get(HOLDER + job.pk, ())}
    commits: Sequence[str] = job.spec.get("commits") or ()
    early = set((job.spec.get("early") or {}).values())
    if faults := [fault for commit_id in commits if (fault := _find_fault(held.get(commit_id)))]:
        _fail(job, f"A dataset could not be brought to {job.template_name}: {faults[0]}")
    elif all(held[id_].is_ready or (held[id_].has_begun and held[id_].id in early) for id_ in commits):
        _open_gate(job)


def _has_moved(job: Job) -> bool:
    """Whether a job went to another place since it was read; it goes to none until the caller's transaction ends."""
    (locked,) = journal.lock_jobs([job.pk])
    return locked.resource_id != job.resource_id


@transaction.atomic
def _open_gate(job: Job) -> None:
    """Queue a job whose datasets are ready, with what it mounts of them; fail it where it cannot mount that."""
    if _has_moved(job):
        return  # what it waits for there is seen by the next run
    spec, copies = get_spec(job), caches.list_copies_of(HOLDER + job.pk)
    early = set(spec.early.values())
    sources = {id_: copy.early_source if copy.pk in early else copy.source for id_, copy in copies.items()}
    mounts = [
        Mount(copies[id_].dataset.name, source_from_json(source))
        for id_ in spec.commits
        if (source := sources.get(id_)) is not None
    ]
    if len(mounts) < len(spec.commits):
        return  # one has been lost since it was asked for; the next run says so
    try:
        jobs.open_gates(actor=_SYSTEM, specs={job.pk: replace(spec, data=tuple(mounts))})
    except UnmountableSource as error:
        _fail(job, error.message)


def _find_fault(copy: HeldCopy | None) -> str:
    if copy is None:
        return "Its cached copy is gone."
    return (copy.error or "It could not be cached.") if copy.has_failed else ""


@transaction.atomic
def _fail(job: Job, reason: str) -> None:
    if _has_moved(job):
        return
    now = clock.now()
    ending = {"reason_code": ReasonCode.INFRASTRUCTURE, "reason": reason}
    step = journal.Step(job.pk, job.token, JobState.FAILED, reason, ending, {"finished_at": now})
    journal.record_steps([step], now=now)


def _update_missing_bytes(workload_ids: Sequence[str]) -> list[str]:
    jobs = Job.objects.filter(workload__in=workload_ids).order_by()
    commits_of = {pk: commits or () for pk, commits in jobs.values_list("workload_id", "spec__commits")}
    return workloads.set_missing_bytes(resources.count_missing_bytes(commits_of))
