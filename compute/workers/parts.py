"""Jobs with completions: their parts are submitted, so many at once as they may be, until all have succeeded.

Only here parts are made, under the lock of the job that they belong to; a job that is suspended or over gets none.
Repeated as often as one likes: the rows say what is missing.
"""

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
        are_again = [_submit(job, spec, index) for index in planned.starts]
    except PlatformError as error:
        _end(job, replace(planned, end=JobState.FAILED), error.message)
        return
    progress = _plan(job, spec).progress
    started = Job.objects.filter(part_of=job.pk).aggregate(at=Min("started_at"))
    changes = {"parts_done": progress.done, "parts_running": progress.running, "reason": str(progress)}
    Job.objects.filter(pk=job.pk).update(**changes, started_at=job.started_at or started["at"])
    is_news = progress.done != job.parts_done or any(are_again)
    job.parts_running = progress.running
    if is_news:
        journal.record_notes({job.pk: str(progress)}, now=clock.now(), locked=[job])


def _submit(job: Job, spec: JobSpec, index: int) -> bool:
    """Submit a try of an index, and return whether it ran before."""
    earlier = Job.objects.filter(part_of=job.pk, part_index=index).count()
    name = find_free_name(f"{job.name}-{index}.{number}" for number in count(earlier + 1))
    template = _template_of(job)
    request = JobRequest(
        project_id=job.project_id,
        name=name,
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
    (part,) = jobs.submit_many(actor=_SYSTEM, requests=[request], known_templates={template.pk: template})
    references = datasets.references_of(actor=_SYSTEM, commit_ids=spec.commits)
    facts = [_describe(references[commit_id], commit_id) for commit_id in spec.commits]
    signals.job_submitted.send(sender=None, job_id=part.pk, datasets=facts)
    return earlier > 0


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
