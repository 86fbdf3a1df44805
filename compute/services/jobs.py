"""Jobs are submitted and cancelled, many at a time and inside the caller's transaction."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType

from django.db import transaction
from django.db.models import QuerySet

from accounts import audit
from accounts.permissions import Actor, require
from accounts.services import secrets
from compute import permissions, signals
from compute.engine.job_spec import HostFolder, JobSpec, Mount, SourceKind, Tree, source_from_json, source_to_json
from compute.engine.parts import parts_variables
from compute.engine.placing import Placing
from compute.engine.states import HOLDING, IDLE, Gate, JobState, ReasonCode
from compute.errors import InvalidJobSpec, JobNameTaken, TemplateNotFound, UnmountableSource
from compute.models import Job, JobEvent, Template
from compute.selectors import jobs as job_selectors
from compute.selectors.templates import (
    bound_grace_period,
    describe_checkpoint_mismatch,
    describe_lasting_mismatch,
    describe_mismatch,
)
from compute.services import checkpoints, journal, queueing
from core import clock, orm, priorities, tasks
from core.deadlocks import repeated_after_deadlock
from core.prepared import insert, prepared
from core.tasks import send_on_commit
from scheduler.services import workloads

__all__ = [
    "Gate",
    "HostFolder",
    "JobRequest",
    "JobSpec",
    "Mount",
    "Placing",
    "SourceKind",
    "Tree",
    "cancel_job",
    "cancel_many",
    "open_gates",
    "parts_variables",
    "source_from_json",
    "source_to_json",
    "submit_many",
    "withdraw_many",
]


@dataclass(frozen=True)
class JobRequest:
    """What is submitted. `kind` is a word for people and for `CNVRG_JOB_TYPE`, such as `experiment`.

    `title` is what people call the job; empty: as its name.
    `on_behalf_of` names the person whose job it is, where the platform submits for one.
    `id` is the id that the job shall have, where something is held for it already; empty: it gets one.
    `idle_limit_s` is how long it may be idle; None: as long as its queue lets it.
    With a `gate` it is queued only once that is opened (`open_gates`); its place in line is that of its submission.
    `part_of` is the id of the job of which it is the part `part_index`; None: of none.
    """

    project_id: str
    name: str
    kind: str
    template_id: str
    spec: JobSpec
    priority: int = priorities.DEFAULT
    is_preemptible: bool = True
    idle_limit_s: float | None = None
    on_behalf_of: str = ""
    title: str = ""
    gate: Gate | None = None
    id: str = ""
    part_of: str | None = None
    part_index: int | None = None

    def __post_init__(self) -> None:
        limits = self.name, bound_grace_period(self.spec.grace_period_s)
        if (self.spec.name, self.spec.grace_period_s) != limits:
            object.__setattr__(self, "spec", replace(self.spec, name=limits[0], grace_period_s=limits[1]))


def submit_many(
    *,
    actor: Actor,
    requests: Sequence[JobRequest],
    known_templates: Mapping[str, Template] = MappingProxyType({}),
    names_are_new: bool = False,
) -> list[Job]:
    """Create queued jobs and return them in the order of the requests. Templates in `known_templates` are not read.

    These may be called otherwise than by their ids, as the requests call them, and need not be stored.

    A name that the project has used returns the job that has it, unchanged, so a repeated call does no harm; where the
    caller has made up all names in this transaction (`names_are_new`), none is looked up.
    Raises JobNameTaken when another project has it, TemplateNotFound, UnmountableSource for what jobs of the template's
    resource cannot read, and InvalidJobSpec for a gang that it cannot run, or checkpoints that it cannot keep; then no
    job is created. Whether a node fits is a matter of the moment, and asked where a person submits (`submissions`).
    """
    for project_id in sorted({request.project_id for request in requests}):
        require(actor, permissions.SUBMIT_JOBS, project_id)
        names = {name for request in requests if request.project_id == project_id for name in request.spec.secret_names}
        secrets.require_use(actor=actor, project_id=project_id, names=names)
    known = {} if names_are_new else _by_name([request.name for request in requests])
    _check_owners(requests, known)
    template_ids = {request.template_id for request in requests}
    templates = {**known_templates, **_get_templates(template_ids - known_templates.keys())}
    for request in requests:
        # What is behind a gate is known once that is opened.
        at_hand = replace(request.spec, data=()) if request.gate else request.spec
        _check_mounts(at_hand, templates[request.template_id])
        # Nodes come and go: a job that fits none of them now waits, and its queue says why.
        if fault := describe_lasting_mismatch(
            templates[request.template_id], request.spec.placing, request.spec.replicas
        ):
            raise InvalidJobSpec(fault)
        if request.spec.checkpoint and (fault := describe_checkpoint_mismatch(templates[request.template_id])):
            raise InvalidJobSpec(fault)
    new = {
        request.name: _new_job(actor, request, templates[request.template_id])
        for request in requests
        if request.name not in known
    }
    if new:
        # Inside the caller's transaction no savepoint is needed: what can be refused was refused above.
        with transaction.atomic(savepoint=False):
            _create(list(new.values()))
            # What the platform submits by itself is told by what it belongs to, such as a run and its events.
            if actor.user_id is not None:
                audit.record(actor, "compute.submit_jobs", next(iter(new.values())), count=len(new))
    return [known.get(request.name) or new[request.name] for request in requests]


@transaction.atomic
def open_gates(*, actor: Actor, specs: Mapping[str, JobSpec | None]) -> list[str]:
    """Queue gated jobs, by id, inside the caller's transaction, with the specs that they have now (None: as before).

    Return the ids of those that were queued: not of those that were cancelled, or queued by somebody else. For callers
    that have found their data ready. Raises UnmountableSource, and then none is queued.
    """
    gated = Job.objects.select_for_update(of=("self",)).filter(pk__in=specs, state=JobState.PENDING, workload=None)
    jobs = list(gated.exclude(gate__in=("", Gate.PARTS)).select_related("template__resource").order_by("pk"))
    for project_id in sorted({job.project_id for job in jobs}):
        require(actor, permissions.SUBMIT_JOBS, project_id)
    for job in jobs:
        if (spec := specs[job.pk]) is not None:
            if job.template is not None:
                _check_mounts(spec, job.template)
            shape = {name: job.spec[name] for name in ("pod", "pool") if name in job.spec}
            job.spec = {**replace(spec, name=job.name).to_json(), **shape}
        job.gate, job.reason, job.event_seq = Gate.PARTS if job.has_parts else "", "", job.event_seq + 1
    for job in jobs:
        may_have_moved = job.kind == job_selectors.SUBMITTED and job.spec.get("pools")
        if not job.gate and may_have_moved:  # and have been queued elsewhere before
            queueing.queue_again(job, enqueued_at=job.created_at)
    queueing.queue_jobs([job for job in jobs if not job.gate and job.workload_id is None])
    Job.objects.bulk_update(jobs, ["spec", "workload", "gate", "reason", "event_seq"], batch_size=100)
    queueing.note_volumes(jobs)
    now = clock.now()
    insert(
        [
            JobEvent(
                job=job,
                seq=job.event_seq,
                state=job.state,
                message=f"Its data is ready. It waits for {job.template_name}.",
                at=now,
            )
            for job in jobs
        ]
    )
    if jobs:
        send_on_commit(signals.job_changed, job_ids=[job.pk for job in jobs], stopped_ids=[])
    return [job.pk for job in jobs]


@transaction.atomic
def cancel_many(*, actor: Actor, job_ids: Collection[str], reason: str) -> list[str]:
    """Cancel jobs that have not ended, inside the caller's transaction; return the ids of those that it concerned.

    A job that waits or is suspended is cancelled at once. One that runs is stopped: SIGTERM, after a grace SIGKILL; it
    keeps its own end where that comes first.
    """
    now = clock.now()
    steps = []
    for job in _lock(actor, job_ids):
        if job.state in IDLE:
            steps.append(_cancel(job, reason, now))
        elif job.state in HOLDING - {JobState.STOPPING}:
            steps.append(journal.Step(job.pk, job.token, JobState.STOPPING, reason, {"reason": reason}))
    tasks.enqueue_on_commit("compute.stop")
    return journal.record_steps(steps, now=now)


@transaction.atomic
def withdraw_many(*, actor: Actor, job_ids: Collection[str], reason: str) -> list[str]:
    """Cancel those jobs that still wait, inside the caller's transaction, and return their ids.

    Those that were placed meanwhile are left alone: they are about to run.
    """
    now = clock.now()
    pending = {job.workload_id: job for job in _lock(actor, job_ids) if job.state == JobState.PENDING}
    # The scheduler decides who waits: it holds the workloads while it looks, so none is placed at this moment.
    withdrawn = workloads.withdraw_many([workload_id for workload_id in pending if workload_id is not None])
    return journal.record_steps([_cancel(pending[workload_id], reason, now) for workload_id in withdrawn], now=now)


@repeated_after_deadlock  # with a pass that starts the job meanwhile
@transaction.atomic
def cancel_job(*, actor: Actor, job: Job, reason: str = "") -> Job:
    """Cancel one job, with its parts. Without effect on one that has ended. Raises JobIsPart.

    What a person gives as `reason` is told with who it was.
    """
    require(actor, permissions.CANCEL_JOBS, job.project_id)
    job_selectors.require_whole(job)
    is_told = bool(reason) and actor.user_id is None
    why = reason if is_told else f"{actor.name} cancelled the job" + (f": {reason}" if reason else ".")
    if cancel_many(actor=actor, job_ids=journal.lock_with_parts(job), reason=why):
        audit.record(actor, "compute.cancel_job", job, reason=reason)
    job.refresh_from_db()
    return job


def _lock(actor: Actor, job_ids: Collection[str]) -> list[Job]:
    jobs = journal.lock_jobs(job_ids)
    for project_id in {job.project_id for job in jobs}:
        require(actor, permissions.CANCEL_JOBS, project_id)
    return jobs


def _cancel(job: Job, reason: str, now: datetime) -> journal.Step:
    ending = {"reason_code": ReasonCode.CANCELLED, "reason": reason, "parts_running": 0}
    return journal.Step(job.pk, job.token, JobState.CANCELLED, reason, ending, {"finished_at": now})


def _new_job(actor: Actor, request: JobRequest, template: Template) -> Job:
    launcher = request.spec.placing.launcher
    return Job(
        id=request.id,
        project_id=request.project_id,
        name=request.name,
        title=request.title,
        kind=request.kind,
        resource=template.resource,
        template=template if template.is_stored else None,
        template_name=template.full_name,
        cpu_millicores=template.cpu_millicores,
        memory_bytes=template.memory_bytes,
        gpu_milli=0 if request.spec.placing.has_own_gpu else template.gpu_milli,
        replica_count=request.spec.replicas,
        launcher_cpu_millicores=launcher.cpu_millicores if launcher is not None else 0,
        launcher_memory_bytes=launcher.memory_bytes if launcher is not None else 0,
        min_replicas=request.spec.placing.min_replicas if request.spec.placing.is_elastic(request.spec.replicas) else 0,
        completions=request.spec.completions,
        parallelism=request.spec.parallelism,
        retries=request.spec.retries,
        part_of_id=request.part_of,
        part_index=request.part_index,
        priority=request.priority,
        is_preemptible=request.is_preemptible,
        grace_period_s=request.spec.grace_period_s,
        idle_limit_s=request.idle_limit_s,
        spec={**request.spec.to_json(), "pod": template.pod, "pool": template.pool},
        submitted_by=request.on_behalf_of or actor.name,
        gate=request.gate or (Gate.PARTS if request.spec.has_parts else ""),
        reason=queueing.describe_data_wait(template.resource) if request.gate else "",
        event_seq=1,
    )


def _create(jobs: Sequence[Job]) -> None:
    checkpoints.attach([job for job in jobs if not job.has_parts])
    queueing.queue_jobs([job for job in jobs if not job.gate])
    insert(jobs)
    queueing.note_volumes([job for job in jobs if not job.gate])
    job_selectors.note_queued([job for job in jobs if job.workload_id is not None])
    insert(
        [
            JobEvent(
                job_id=job.pk,
                seq=1,
                state=job.state,
                message=job.reason or f"Waits for {job.template_name}.",
                at=job.created_at,
            )
            for job in jobs
        ]
    )
    send_on_commit(signals.job_changed, job_ids=[job.pk for job in jobs], stopped_ids=[])


def _by_name(names: Sequence[str]) -> dict[str, Job]:
    return {job.name: job for batch in orm.in_batches(names) for job in _named(batch)}


@prepared
def _named(names: Collection[str]) -> QuerySet[Job]:
    return Job.objects.filter(name__in=names).defer("spec")


@prepared
def _attached(template_ids: Collection[str]) -> QuerySet[Template]:
    attached = Template.objects.filter(resource__detached_at=None, pk__in=template_ids)
    return attached.select_related("resource").defer("resource__config")


def _check_owners(requests: Sequence[JobRequest], known: dict[str, Job]) -> None:
    for request in requests:
        if request.name in known and known[request.name].project_id != request.project_id:
            raise JobNameTaken(f"Another project has a job called '{request.name}'.")


def _check_mounts(spec: JobSpec, template: Template) -> None:
    for mount in spec.mounts:
        if fault := describe_mismatch(template, f"'{mount.name}'", {mount.source.kind}):
            raise UnmountableSource(fault, mount=mount.name, resource=template.resource.name)


def _get_templates(template_ids: Collection[str]) -> dict[str, Template]:
    templates = {template.pk: template for template in (_attached(template_ids) if template_ids else ())}
    if missing := set(template_ids) - set(templates):
        raise TemplateNotFound(f"There is no compute template {', '.join(sorted(missing))}.")
    return templates
