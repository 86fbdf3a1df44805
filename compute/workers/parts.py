"""Jobs with completions: their parts are submitted, so many at once as they may be, until all have succeeded.

Only here parts are made, under the lock of the job that they belong to; a job that is suspended or over gets none.
Repeated as often as one likes: the rows say what is missing.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from django.db import transaction
from django.db.models import Min, QuerySet

from accounts.permissions import Actor
from compute import signals
from compute.engine import parts
from compute.engine.job_spec import JobSpec
from compute.engine.parts import Part, Plan
from compute.engine.states import Gate, JobState, ReasonCode
from compute.models import Job, Template
from compute.selectors.jobs import find_free_name, get_spec
from compute.services import jobs, journal
from compute.services.jobs import JobRequest
from core import clock, isolation
from core.errors import PlatformError
from datasets.selectors import datasets

MOST_AT_ONCE = 50
"""So many parts of a job are submitted in one transaction, which others may wait for; the next run submits more."""

_SYSTEM = Actor.system("parts of jobs")


def find_live() -> list[QuerySet[Job]]:
    """Return the jobs that run as parts, and are neither suspended nor over."""
    return [Job.objects.filter(workload=None, is_live=True, state=JobState.PENDING, gate=Gate.PARTS)]


def advance_parts() -> None:
    """Submit what may run of the parts of each job, note how they stand, and end the jobs whose parts are over."""
    (live,) = find_live()
    isolation.for_each("compute.advance_parts", live.order_by("pk"), _advance, key=lambda job: job.pk)


def _advance(job: Job) -> None:
    spec = get_spec(job)
    planned = _plan(job, spec)
    progress = planned.progress
    is_news = planned.starts or planned.end or str(progress) != job.reason
    if is_news or progress.running != job.parts_running or (progress.running and job.started_at is None):
        _apply(job.pk, spec)


def _plan(job: Job, spec: JobSpec) -> Plan:
    rows = Job.objects.filter(part_of=job.pk).order_by("pk").values_list("part_index", "state", "reason_code", "reason")
    tries = [Part(index or 0, JobState(state), code, reason) for index, state, code, reason in rows]
    return parts.plan(tries, completions=spec.completions, parallelism=spec.parallelism, retries=spec.retries)


@transaction.atomic
def _apply(job_id: str, spec: JobSpec) -> None:
    """Decide once more, with the job locked, and write it down."""
    locked = Job.objects.select_for_update(of=("self",)).select_related("resource", "template__resource")
    job = locked.get(pk=job_id)
    if job.state != JobState.PENDING:
        return
    planned = _plan(job, spec)
    if planned.end is not None:
        _end(job, planned)
        return
    try:
        is_again = bool(planned.starts) and _submit(job, spec, planned.starts[:MOST_AT_ONCE])
    except PlatformError as error:
        _end(job, replace(planned, end=JobState.FAILED), error.message)
        return
    progress = _plan(job, spec).progress
    started = Job.objects.filter(part_of=job.pk).aggregate(at=Min("started_at"))
    changes = {"parts_done": progress.done, "parts_running": progress.running, "reason": str(progress)}
    Job.objects.filter(pk=job.pk).update(**changes, started_at=job.started_at or started["at"])
    is_news = progress.done != job.parts_done or is_again
    job.parts_running = progress.running
    if is_news:
        journal.record_notes({job.pk: str(progress)}, now=clock.now(), locked=[job])


def _submit(job: Job, spec: JobSpec, indexes: Sequence[int]) -> bool:
    """Submit a try of each index, and return whether any of them ran before."""
    rows = Job.objects.filter(part_of=job.pk, part_index__in=indexes)
    earlier = Counter(rows.values_list("part_index", flat=True))
    template = _template_of(job)
    requests = [_request_of(job, template, spec, index, earlier[index] + 1) for index in indexes]
    submitted = jobs.submit_many(actor=_SYSTEM, requests=requests, known_templates={template.pk: template})
    references = datasets.references_of(actor=_SYSTEM, commit_ids=spec.commits)
    facts = [_describe(references[commit_id], commit_id) for commit_id in spec.commits]
    for part in submitted:
        signals.job_submitted.send(sender=None, job_id=part.pk, datasets=facts)
    return bool(earlier)


def _request_of(job: Job, template: Template, spec: JobSpec, index: int, number: int) -> JobRequest:
    """Return what is submitted as an index's try of this number."""
    return JobRequest(
        project_id=job.project_id,
        name=find_free_name(f"{job.name}-{index}.{each}" for each in count(number)),
        title=f"{job.label}-{index}",
        kind=job.kind,
        template_id=template.pk,
        spec=replace(
            spec,
            env={**spec.env, **parts.parts_variables(index, spec.completions)},
            completions=1,
            parallelism=1,
            retries=0,
            # All tries of an index go on from the same checkpoint.
            checkpoint=f"{spec.checkpoint}-{index}" if spec.checkpoint else "",
        ),
        priority=job.priority,
        is_preemptible=job.is_preemptible,
        idle_limit_s=job.idle_limit_s,
        on_behalf_of=job.submitted_by,
        part_of=job.pk,
        part_index=index,
    )


def _template_of(job: Job) -> Template:
    """Return the shape that the job was submitted with, whatever has become of its template."""
    template = job.template or Template(resource=job.resource, name=job.template_name.partition(".")[2])
    template.cpu_millicores, template.memory_bytes = job.cpu_millicores, job.memory_bytes
    template.gpu_milli, template.pod = job.gpu_milli, job.spec.get("pod") or {}
    template.pool = job.spec.get("pool") or ""
    return template


def _describe(reference: str, commit_id: str) -> dict[str, object]:
    """Return what is told of a dataset that a part reads."""
    dataset = reference.partition("@")[0]
    name = dataset.rpartition("/")[2]
    return {"name": name, "reference": reference, "dataset": dataset, "commit": commit_id, "cached": True}


def _end(job: Job, planned: Plan, fault: str = "") -> None:
    """End a job whose parts are over, or one of whose parts ends it: then the others are cancelled."""
    progress, why = planned.progress, planned.why
    if why is not None:
        verb = "was cancelled" if why.state is JobState.CANCELLED else "failed"
        fault = f"Part {why.index} {verb}: {why.reason}"
    now = clock.now()
    fields = {
        "reason_code": (why.reason_code if why is not None else ReasonCode.USER_ERROR) if fault else "",
        "reason": f"{progress}. {fault}".strip() if fault else str(progress),
        "parts_done": progress.done,
        "parts_running": 0,
    }
    end = planned.end or JobState.FAILED
    step = journal.Step(job.pk, job.token, end, str(fields["reason"]), fields, {"finished_at": now})
    journal.record_steps([step], now=now)
    if fault:
        live = Job.objects.filter(part_of=job.pk, is_live=True).values_list("pk", flat=True)
        jobs.cancel_many(actor=_SYSTEM, job_ids=list(live), reason=f"{job.label} has failed. {fault}")
