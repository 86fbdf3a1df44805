"""One job as a person submits it: a command, a template, an image, and datasets.

What the job reads is held on its cache site from here until the job has ended, so that it cannot be evicted meanwhile.
Where all sites of its resource are simulated, what is not ready is requested, and the job is queued once it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from accounts.actor import Actor
from accounts.models import Project
from accounts.permissions import require
from compute import permissions, signals
from compute.engine.job_spec import is_safe_name
from compute.engine.mounts import Mount, Tree, source_from_json
from compute.errors import DataNotCached, InvalidJobSpec, JobNameTaken
from compute.models import Job, Template
from compute.selectors import jobs as job_selectors
from compute.selectors import templates
from compute.services import confinement, jobs
from compute.services.jobs import JobRequest, JobSpec
from core import clock, ids
from datasets.selectors import caches as cache_selectors
from datasets.selectors import datasets as dataset_selectors
from datasets.services import caches

KIND = "job"
MOST_NAME = 63
HOLDER = "job:"
_RESERVED = frozenset({"new"})
"""Names whose page would be another one."""


@dataclass(frozen=True)
class Submission:
    """What a person asks for. `data` names commits (`project/dataset@ref`); without a name the job gets one.

    `simulated_duration_s` is how long the job takes on nodes that do not exist; elsewhere it means nothing. What is not
    preemptible is never stopped for others, and starts only within the project's quota.
    """

    template: str
    command: str
    name: str = ""
    image: str = ""
    data: Sequence[str] = ()
    simulated_duration_s: float = 60.0
    is_preemptible: bool = True


def require_submit(*, actor: Actor, project: Project) -> None:
    """Raise PermissionDenied (or ProjectNotFound) unless the actor may submit jobs in a project."""
    require(actor, permissions.SUBMIT_JOBS, project.pk)


def submit_job(*, actor: Actor, project: Project, wanted: Submission) -> Job:
    """Queue a job and return it.

    Raises TemplateNotFound, ResourceUnconfined, InvalidJobSpec, JobNameTaken, and DataNotCached for what is not
    beside the template yet.
    """
    require_submit(actor=actor, project=project)
    template = templates.get_template(actor=actor, full_name=wanted.template)
    confinement.require_use(actor=actor, resources=[template.resource])
    name = wanted.name or ids.new_id(KIND, now_ms=clock.now_ms()).replace("_", "-")
    if not is_safe_name(name) or len(name) > MOST_NAME or name in _RESERVED:
        raise InvalidJobSpec(f"'{name}' cannot name a job: use at most {MOST_NAME} letters, digits, '.', '_' and '-'.")
    if Job.objects.filter(name=name).exists():
        raise JobNameTaken(f"There is a job called '{name}' already.")
    datasets = [_find_copy(actor, template, reference, name) for reference in wanted.data]
    with transaction.atomic():
        for dataset in datasets:
            caches.hold(actor, dataset.copy.pk, HOLDER + name, _why(name))
        mounts = [dataset.mount for dataset in datasets]
        if len({mount.name for mount in mounts}) < len(mounts):
            raise InvalidJobSpec("Two of the datasets have the same name, so they would lie in the same folder.")
        spec = JobSpec(
            name=name,
            command=wanted.command.strip(),
            image=wanted.image.strip() or None,
            data=tuple(mounts),
            commits=tuple(dataset.copy.commit_id for dataset in datasets),
            simulated_duration_s=wanted.simulated_duration_s,
        )
        request = JobRequest(
            project_id=project.pk,
            name=name,
            kind=KIND,
            template_id=template.pk,
            spec=spec,
            is_preemptible=wanted.is_preemptible,
            waits_for_data=any(dataset.copy.source is None for dataset in datasets),
        )
        (job,) = jobs.submit_many(actor=actor, requests=[request])
        signals.job_submitted.send(sender=None, job_id=job.pk, datasets=[dataset.facts for dataset in datasets])
    return job


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
