"""One job as a person submits it: a command, a template or a size, an image, and datasets.

What the job reads is held on its cache site from here until the job has ended, so that it cannot be evicted meanwhile.
Where all sites of its resource are simulated, what is not ready is requested, and the job is queued once it is.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import transaction

from accounts.actor import Actor
from accounts.models import Project
from accounts.permissions import Permission, require
from compute import permissions, signals
from compute.engine.job_spec import DEFAULT_GRACE_PERIOD_S, is_safe_name
from compute.engine.mounts import Mount, Tree, source_from_json
from compute.engine.states import Gate
from compute.errors import DataNotCached, InvalidJobSpec, JobBelongsToRun, JobNameTaken
from compute.models import Job, Template
from compute.selectors import grace_periods, templates
from compute.selectors import jobs as job_selectors
from compute.services import jobs, shapes
from compute.services.jobs import JobRequest, JobSpec
from compute.services.shapes import Ask
from core import bounds, clock, ids
from datasets.selectors import caches as cache_selectors
from datasets.selectors import datasets as dataset_selectors
from datasets.services import caches
from scheduler.selectors import pools

KIND = "job"
MOST_NAME = 63
HOLDER = "job:"
_RESERVED = frozenset({"new"})
"""Names whose page would be another one."""


@dataclass(frozen=True)
class Submission:
    """What a person asks for. `data` names commits (`project/dataset@ref`); without a name the job gets one.

    Without a template its size counts, and a resource is found for it: see `shapes`. Without a command its image runs
    what it is made for. `secrets` names secrets of the project, which the job gets as variables.
    `replicas` is how often the command runs at once, each as large as the template. `grace_period_s` is the time that
    it has between SIGTERM and SIGKILL.
    `simulated_duration_s` is how long the job takes on nodes that do not exist; elsewhere it means nothing. What is not
    preemptible is never stopped for others, and starts only within the project's quota.
    """

    template: str = ""
    command: str = ""
    name: str = ""
    image: str = ""
    resource: str = ""
    pool: str = ""
    gpu_milli: int | None = None
    cpu_millicores: int | None = None
    memory_bytes: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[str] = ()
    ports: Sequence[int] = ()
    volumes: Sequence[str] = ()
    data: Sequence[str] = ()
    simulated_duration_s: float = 60.0
    is_preemptible: bool = True
    replicas: int = 1
    grace_period_s: float = DEFAULT_GRACE_PERIOD_S


def require_submit(*, actor: Actor, project: Project) -> None:
    """Raise PermissionDenied (or ProjectNotFound) unless the actor may submit jobs in a project."""
    require(actor, permissions.SUBMIT_JOBS, project.pk)


def submit_job(*, actor: Actor, project: Project, wanted: Submission) -> Job:
    """Queue a job and return it.

    Raises TemplateNotFound, ResourceUnconfined, NoResourceFits, InvalidJobSpec, JobNameTaken, and DataNotCached for
    what is not beside the template yet.
    """
    require_submit(actor=actor, project=project)
    template = find_template(actor=actor, wanted=wanted)
    name = wanted.name or ids.new_id(KIND, now_ms=clock.now_ms()).replace("_", "-")
    if not is_safe_name(name) or len(name) > MOST_NAME or name in _RESERVED:
        raise InvalidJobSpec(f"'{name}' cannot name a job: use at most {MOST_NAME} letters, digits, '.', '_' and '-'.")
    if len(wanted.command.encode()) > bounds.MAX_ARGUMENT_BYTES:
        raise InvalidJobSpec(f"The command has more than {bounds.MAX_ARGUMENT_BYTES:,} bytes.")
    if fault := grace_periods.describe_fault(wanted.grace_period_s):
        raise InvalidJobSpec(fault)
    if Job.objects.filter(name=name).exists():
        raise JobNameTaken(f"There is a job called '{name}' already.")
    datasets = [_find_copy(actor, template, reference, name) for reference in wanted.data]
    with transaction.atomic():
        for dataset in datasets:
            caches.hold(actor=actor, cached_commit_id=dataset.copy.pk, holder=HOLDER + name, why=_why(name))
        mounts = [dataset.mount for dataset in datasets]
        if len({mount.name for mount in mounts}) < len(mounts):
            raise InvalidJobSpec("Two of the datasets have the same name, so they would lie in the same folder.")
        spec = JobSpec(
            name=name,
            command=wanted.command.strip(),
            image=wanted.image.strip() or None,
            data=tuple(mounts),
            commits=tuple(dataset.copy.commit_id for dataset in datasets),
            replicas=wanted.replicas,
            grace_period_s=wanted.grace_period_s,
            env=wanted.env,
            secret_names=tuple(wanted.secrets),
            ports=tuple(wanted.ports),
            volumes=tuple(wanted.volumes),
            simulated_duration_s=wanted.simulated_duration_s,
        )
        request = JobRequest(
            project_id=project.pk,
            name=name,
            kind=KIND,
            template_id=template.pk,
            spec=spec,
            is_preemptible=wanted.is_preemptible,
            gate=Gate.DATA if any(dataset.copy.source is None for dataset in datasets) else None,
        )
        (job,) = jobs.submit_many(actor=actor, requests=[request], known_templates={template.pk: template})
        signals.job_submitted.send(sender=None, job_id=job.pk, datasets=[dataset.facts for dataset in datasets])
    return job


def find_template(*, actor: Actor, wanted: Submission) -> Template:
    """Return the template of a job: the one that it names, or the one that its size asks for.

    Raises TemplateNotFound, ResourceUnconfined, NoResourceFits and InvalidJobSpec.
    """
    size = (wanted.gpu_milli, wanted.cpu_millicores, wanted.memory_bytes)
    if not wanted.template:
        ask = Ask(
            gpu_milli=wanted.gpu_milli or 0,
            cpu_millicores=wanted.cpu_millicores,
            memory_bytes=wanted.memory_bytes,
            resource=wanted.resource,
            pool=wanted.pool or pools.DEFAULT,
            replicas=wanted.replicas,
            needs_image=bool(wanted.image) or not wanted.command.strip(),
            reads_data=bool(wanted.data),
            ports=wanted.ports,
            volumes=wanted.volumes,
        )
        return shapes.find_template(actor=actor, ask=ask)
    if size != (None, None, None) or wanted.resource or wanted.pool:
        raise InvalidJobSpec("A template says the size and the resource already: name either it, or these.")
    template = shapes.get_template(actor=actor, full_name=wanted.template, ports=wanted.ports, volumes=wanted.volumes)
    if not wanted.command.strip() and templates.ignores_image(template):
        raise InvalidJobSpec("The command is empty.")
    return template


def rerun_job(*, actor: Actor, job: Job, name: str = "") -> Job:
    """Submit once more what a job was submitted as, with the same commits of its datasets, and return the new job.

    Raises JobBelongsToRun, and what `submit_job` raises.
    """
    require_own(actor=actor, job=job, permission=permissions.SUBMIT_JOBS)
    spec = job_selectors.get_spec(job)
    shape = Submission(template=job.template_name)
    if job.template_id is None:
        shape = Submission(
            resource=job.resource.name,
            gpu_milli=job.gpu_milli,
            cpu_millicores=job.cpu_millicores,
            memory_bytes=job.memory_bytes,
        )
    references = dataset_selectors.references_of(actor=actor, commit_ids=spec.commits)
    wanted = replace(
        shape,
        command=spec.command if isinstance(spec.command, str) else shlex.join(spec.command),
        name=name,
        image=spec.image or "",
        data=[references[commit_id] for commit_id in spec.commits],
        env=spec.env,
        secrets=spec.secret_names,
        ports=spec.ports,
        volumes=spec.volumes,
        replicas=spec.replicas,
        grace_period_s=spec.grace_period_s,
        simulated_duration_s=spec.simulated_duration_s,
        is_preemptible=job.is_preemptible,
    )
    return submit_job(actor=actor, project=job.project, wanted=wanted)


def require_own(*, actor: Actor, job: Job, permission: Permission) -> None:
    """Raise PermissionDenied unless the actor may do this, and JobBelongsToRun for the job of a step."""
    require(actor, permission, job.project_id)
    if job.kind != KIND:
        raise JobBelongsToRun(f"{job.label} is a step of a run.")


def cancel_work(*, actor: Actor, username: str) -> None:
    """Cancel the jobs that a person submitted by hand and that have not ended."""
    for job in job_selectors.list_live_of([username], kind=KIND):
        jobs.cancel_job(actor=actor, job=job, reason=f"{actor.name} disabled {username} and stopped their work.")


@dataclass(frozen=True)
class _Dataset:
    """A dataset that a job reads: its copy, how that is mounted, and which commit it is."""

    copy: Any
    mount: Mount
    facts: dict[str, object]


def _find_copy(actor: Actor, template: Template, reference: str, name: str) -> _Dataset:
    """Return the copy that a job reads, requested where need be."""
    sites = template.resource.sites
    if not sites:
        raise InvalidJobSpec(f"{template.resource.name} has no cache site, so its jobs cannot read datasets.")
    found = dataset_selectors.resolve(actor, reference)
    commit = found.commit
    rows = [cache_selectors.get_site(actor=actor, name=site) for site in sites]
    copy = cache_selectors.find_ready(commit.pk, sites)
    if copy is None and all(site.is_simulated for site in rows):
        copy = caches.request_nearest(actor=actor, commit=commit, sites=rows, holder=HOLDER + name, why=_why(name))
    if copy is None:
        where = " or ".join(sites)
        raise DataNotCached(f"{reference} is not cached on {where}, where {template.full_name} would read it.")
    source = Tree(found.dataset.pk, commit.root) if copy.source is None else source_from_json(copy.source)
    facts: dict[str, object] = {
        "name": found.dataset.name,
        "reference": reference,
        "dataset": f"{found.dataset.project.name}/{found.dataset.name}",
        "commit": commit.pk,
        "cached": True,
    }
    return _Dataset(copy, Mount(found.dataset.name, source), facts)


def _why(name: str) -> str:
    return f"read by {name}"
