"""One job as a person submits it: a command, a template or a size, an image, code, and datasets.

What the job reads is held on a cache site of its resource until the job has ended, so that it cannot be evicted
meanwhile. What is not ready there is requested, and the job is queued once it is, with the place in line of its
submission.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count

from django.db import IntegrityError, transaction
from django.db.models import Q

from accounts import audit
from accounts.models import Project
from accounts.permissions import Actor, Permission, require
from accounts.services import secrets
from compute import permissions, signals
from compute.engine.job_spec import DEFAULT_GRACE_PERIOD_S, Mount, Tree, is_safe_name
from compute.engine.placing import Placing
from compute.errors import CodeNotFound, InvalidJobSpec, JobBelongsToRun, JobNameTaken
from compute.models import Job, Template
from compute.selectors import jobs as job_selectors
from compute.selectors import resources, templates
from compute.services import jobs, journal, queueing, shapes
from compute.services.jobs import JobRequest, JobSpec
from compute.services.shapes import Ask
from core import bounds, clock, ids, priorities, tasks
from core.deadlocks import repeated_after_deadlock
from core.errors import PlatformError
from datasets.errors import TreeNotFound
from datasets.selectors import datasets as dataset_selectors
from datasets.selectors import trees as tree_selectors
from datasets.selectors.datasets import ResolvedCommit
from datasets.services import selections, trees
from datasets.services.trees import StoredTree
from scheduler.selectors import pools
from scheduler.selectors.resource_pools import ResourcePools

KIND = job_selectors.SUBMITTED
HOLDER = job_selectors.HOLDER
MOST_NAME = 63
DEFAULT_RETRIES = 6
"""So often parts of a job run again, in all, where its submission says nothing of it; as Kubernetes does."""

CODE_HOLDER = "job-code:"
"""The holder of the code of a job: this, and its id. It stays as long as the job can be submitted once more."""

_JUPYTER_PORT = 8888
_SYSTEM = Actor.system("submissions")
_RESERVED = frozenset({"new"})
"""Names whose page would be another one."""


@dataclass(frozen=True)
class Submission:
    """What a person asks for. `data` names commits (`project/dataset@ref`); without a name the job gets one.

    Without a template its size counts, and a resource is found for it: see `shapes`. `pools` are where, the best first;
    empty: those that its project prefers. While it waits it moves to the first of them where it can start now, or where
    it would start much earlier, its data brought there. `pool` stands for one of them. With a template or a resource
    that labels divide among pools, one pool may be named: of these. Without a command its image runs
    what it is made for. `secrets` names secrets of the project, which the job gets as variables.
    `code` is the root of a tree that was uploaded as code; the job finds it in its working directory.
    `replicas` is how often the command runs at once, each as large as the template. With `completions` of more than one
    it runs as so many parts instead, each with its index, at most `parallelism` of them at once. What fails runs again,
    `retries` times in all (None: as usual with completions, else never). `placing` is what it asks of GPUs and nodes
    besides.
    `timeout_s` is how long a run of it may take; None: as long as it likes. `idle_limit_s` is how long it may be idle;
    the shorter of that and what its project rules holds. `grace_period_s` is the time that it has between SIGTERM and
    SIGKILL. `ports` are those on which it listens; with `jupyter` it runs a Jupyter on the first of them, by its own
    command or the usual one. With `checkpoints` it has a folder that outlives its runs.
    With `start_early` it starts once the first files of its data are there.
    `simulated_duration_s` is how long the job takes on nodes that do not exist; elsewhere it means nothing. What is not
    preemptible is never stopped for others, and starts only within the project's quota. Jobs of a higher `priority` go
    first within the project, and may be preempted for by it.
    """

    template: str = ""
    command: str = ""
    name: str = ""
    image: str = ""
    resource: str = ""
    pool: str = ""
    pools: Sequence[str] = ()
    gpu_milli: int | None = None
    cpu_millicores: int | None = None
    memory_bytes: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[str] = ()
    ports: Sequence[int] = ()
    jupyter: bool = False
    volumes: Sequence[str] = ()
    data: Sequence[str] = ()
    start_early: bool = False
    code: str = ""
    simulated_duration_s: float = 60.0
    is_preemptible: bool = True
    priority: int = priorities.DEFAULT
    replicas: int = 1
    completions: int = 1
    parallelism: int = 1
    retries: int | None = None
    placing: Placing = Placing()
    timeout_s: float | None = None
    idle_limit_s: float | None = None
    grace_period_s: float = DEFAULT_GRACE_PERIOD_S
    checkpoints: bool = False

    def pools_in(self, project: Project) -> tuple[str, ...]:
        """Return the pools in which a place is found, the best first: those that it names, or its project's.

        None where it names its template or its resource. Raises InvalidJobSpec.
        """
        if self.template or self.resource:
            return ()
        return self.named_pools or tuple(pools.list_preferred(project.pk))

    @property
    def named_pools(self) -> tuple[str, ...]:
        """The pools that it names, the best first. Raises InvalidJobSpec for one that is named twice."""
        named = (self.pool, *self.pools) if self.pool else tuple(self.pools)
        if len(set(named)) < len(named):
            raise InvalidJobSpec("A pool is named twice.")
        return named


def require_submit(*, actor: Actor, project: Project) -> None:
    """Raise PermissionDenied (or ProjectNotFound) unless the actor may submit jobs in a project."""
    require(actor, permissions.SUBMIT_JOBS, project.pk)


def submit_job(*, actor: Actor, project: Project, submission: Submission) -> Job:
    """Queue a job and return it.

    Its datasets are requested where they are not ready, and it waits for them. Raises TemplateNotFound,
    ResourceUnconfined, NoResourceFits, InvalidJobSpec, JobNameTaken, CodeNotFound, SecretNotFound, and what
    `caches.request_nearest` raises.
    """
    require_submit(actor=actor, project=project)
    submission = _with_jupyter(submission)
    _check_parts(submission)
    datasets = find_datasets(actor=actor, submission=submission)
    template = find_template(actor=actor, project=project, submission=submission, datasets=datasets)
    name = submission.name or ids.new_id(KIND, now_ms=clock.now_ms()).replace("_", "-")
    if not is_safe_name(name) or len(name) > MOST_NAME or name in _RESERVED:
        raise InvalidJobSpec(f"'{name}' cannot name a job: use at most {MOST_NAME} letters, digits, '.', '_' and '-'.")
    if len(submission.command.encode()) > bounds.MAX_ARGUMENT_BYTES:
        raise InvalidJobSpec(f"The command has more than {bounds.MAX_ARGUMENT_BYTES:,} bytes.")
    if fault := _fault_of_image(submission.image) or templates.describe_grace_period_fault(submission.grace_period_s):
        raise InvalidJobSpec(fault)
    if submission.idle_limit_s is not None and (fault := bounds.idle_limit_fault(submission.idle_limit_s)):
        raise InvalidJobSpec(fault)
    secrets.require_present(project_id=project.pk, names=submission.secrets)
    own_name = _find_free_name(name)
    code = _find_code(project, submission.code)
    job_id = ids.new_id(Job.id_prefix, now_ms=clock.now_ms())
    spec = JobSpec(
        name=own_name,
        command=submission.command.strip(),
        image=submission.image.strip() or None,
        commits=tuple(dataset.commit.pk for dataset in datasets),
        holder=f"{HOLDER}{job_id}",
        code=Mount("code", Tree(code.dataset_id, code.root)) if code is not None else None,
        replicas=submission.replicas,
        completions=submission.completions,
        parallelism=min(submission.parallelism, submission.completions),
        retries=_retries_of(submission),
        placing=submission.placing,
        timeout_s=submission.timeout_s,
        grace_period_s=submission.grace_period_s,
        checkpoint=f"job:{job_id}" if submission.checkpoints else "",
        env=submission.env,
        secret_names=tuple(submission.secrets),
        ports=tuple(submission.ports),
        jupyter=submission.jupyter,
        volumes=tuple(submission.volumes),
        pools=submission.pools_in(project),
        own_cpu_millicores=submission.cpu_millicores,
        own_memory_bytes=submission.memory_bytes,
        simulated_duration_s=submission.simulated_duration_s,
    )
    request = JobRequest(
        id=job_id,
        title=name if name != own_name else "",
        project_id=project.pk,
        name=own_name,
        kind=KIND,
        template_id=template.pk,
        spec=spec,
        is_preemptible=submission.is_preemptible,
        priority=submission.priority,
        idle_limit_s=submission.idle_limit_s,
    )
    facts = [_describe(*pair) for pair in zip(submission.data, datasets, strict=True)]
    try:
        commits = [each.commit for each in datasets]
        copies = queueing.request_data(actor, template.resource, commits, job_id=job_id, job_name=own_name)
        spec, gate = queueing.mount_data(spec, copies, is_early=submission.start_early)
        request = replace(request, spec=spec, gate=gate)
        with transaction.atomic():
            if code is not None:
                trees.hold_tree(actor=actor, tree=code, holder=CODE_HOLDER + job_id)
            (job,) = jobs.submit_many(actor=actor, requests=[request], known_templates={template.pk: template})
            if job.pk != job_id:
                raise JobNameTaken(f"There is a job called '{name}' already.")
            _tell(job, facts)
    except PlatformError:
        queueing.release_data(actor, job_id)
        raise
    except IntegrityError as error:
        queueing.release_data(actor, job_id)
        if Job.objects.filter(name=own_name).exists():
            raise JobNameTaken(f"There is a job called '{name}' already.") from error
        raise
    return job


def _tell(job: Job, datasets: Sequence[Mapping[str, object]]) -> None:
    """Tell others of a new job, in its transaction. Of one with parts, these are told of once there are any."""
    if job.has_parts:
        tasks.enqueue_on_commit("compute.advance_parts")
    else:
        signals.job_submitted.send(sender=None, job_id=job.pk, datasets=datasets)


def find_template(
    *, actor: Actor, project: Project, submission: Submission, datasets: Sequence[ResolvedCommit]
) -> Template:
    """Return the template of a job that reads datasets: the one that it names, or the one that its size asks for.

    Raises TemplateNotFound, ResourceUnconfined, NoResourceFits and InvalidJobSpec.
    """
    size = (submission.gpu_milli, submission.cpu_millicores, submission.memory_bytes)
    if (submission.resource or submission.template) and len(submission.named_pools) > 1:
        raise InvalidJobSpec("A job that names its template or its resource is in one pool of that: name one at most.")
    preferred = pools.list_preferred(project.pk) if submission.resource or submission.template else ()
    if not submission.template:
        submission.placing.check(gpu_milli=submission.gpu_milli or 0, replicas=submission.replicas)
        ask = Ask(
            gpu_milli=submission.gpu_milli or 0,
            cpu_millicores=submission.cpu_millicores,
            memory_bytes=submission.memory_bytes,
            resource=submission.resource,
            pools=submission.named_pools if submission.resource else submission.pools_in(project),
            preferred=preferred,
            replicas=submission.replicas,
            placing=submission.placing,
            needs_image=bool(submission.image) or not submission.command.strip(),
            commits=[each.commit.pk for each in datasets],
            starts_early=submission.start_early,
            keeps_checkpoints=submission.checkpoints,
            ports=submission.ports,
            volumes=submission.volumes,
        )
        return shapes.find_template(actor=actor, ask=ask)
    if size != (None, None, None) or submission.resource:
        raise InvalidJobSpec("A template says the size and the resource already: name either it, or these.")
    template = shapes.get_template(
        actor=actor,
        full_name=submission.template,
        ports=submission.ports,
        volumes=submission.volumes,
        pool=next(iter(submission.named_pools), ""),
        preferred=preferred,
        replicas=submission.replicas,
    )
    if fault := templates.describe_placing_mismatch(template, submission.placing, submission.replicas):
        raise InvalidJobSpec(fault)
    if not submission.command.strip() and templates.ignores_image(template):
        raise InvalidJobSpec("The command is empty.")
    if datasets and not resources.list_readable_sites(template.resource):
        resource = template.resource.name
        raise InvalidJobSpec(f"{resource} has no cache site that its jobs can read, so they cannot read datasets.")
    if submission.start_early and (fault := templates.describe_early_mismatch(template)):
        raise InvalidJobSpec(fault)
    return template


def find_datasets(*, actor: Actor, submission: Submission) -> list[ResolvedCommit]:
    """Return the commits that a job would read. Raises InvalidJobSpec, and what `selections.resolve` raises."""
    commits = [selections.resolve(actor=actor, reference=reference) for reference in submission.data]
    if len({each.dataset.name for each in commits}) < len(commits):
        raise InvalidJobSpec("Two of the datasets have the same name, so they would lie in the same folder.")
    return commits


def rerun_job(*, actor: Actor, job: Job, name: str = "") -> Job:
    """Submit once more what a job was submitted as, with the same commits of its datasets, and return the new job.

    Raises JobBelongsToRun, JobIsPart, and what `submit_job` raises.
    """
    require_own(actor=actor, job=job, permission=permissions.SUBMIT_JOBS)
    spec = job_selectors.get_spec(job)
    is_there = spec.pool and ResourcePools([job.resource_id]).has(job.resource_id, spec.pool)
    pool = spec.pool if is_there else ""
    shape = Submission(template=job.template_name, pool=pool)
    if spec.pools:
        shape = Submission(
            pools=spec.pools,
            gpu_milli=job.gpu_milli or None,
            cpu_millicores=spec.own_cpu_millicores,
            memory_bytes=spec.own_memory_bytes,
        )
    elif job.template_id is None:
        shape = Submission(
            resource=job.resource.name,
            pool=pool,
            gpu_milli=job.gpu_milli or None,
            cpu_millicores=job.cpu_millicores,
            memory_bytes=job.memory_bytes,
        )
    references = dataset_selectors.references_of(actor=actor, commit_ids=spec.commits)
    submission = replace(
        shape,
        command=spec.command if isinstance(spec.command, str) else shlex.join(spec.command),
        name=name,
        image=spec.image or "",
        data=[references[commit_id] for commit_id in spec.commits],
        start_early=bool(spec.early),
        code=job_selectors.code_of(spec),
        env=spec.env,
        secrets=spec.secret_names,
        ports=spec.ports,
        jupyter=spec.jupyter,
        volumes=spec.volumes,
        replicas=spec.replicas,
        completions=spec.completions,
        parallelism=spec.parallelism,
        retries=spec.retries if job.has_parts else None,
        placing=spec.placing,
        timeout_s=spec.timeout_s,
        idle_limit_s=job.idle_limit_s,
        grace_period_s=spec.grace_period_s,
        checkpoints=bool(spec.checkpoint),
        simulated_duration_s=spec.simulated_duration_s,
        is_preemptible=job.is_preemptible,
        priority=job.priority,
    )
    return submit_job(actor=actor, project=job.project, submission=submission)


@repeated_after_deadlock  # with a pass that starts the job meanwhile
@transaction.atomic
def delete_job(*, actor: Actor, job: Job) -> None:
    """Stop a job for good, with its parts, and show it no more. Its name is free; its experiment stays, with its files.

    What else it and its parts left is let go once they have ended. Raises JobBelongsToRun and JobIsPart.
    """
    require_own(actor=actor, job=job, permission=permissions.CANCEL_JOBS)
    reason = f"{actor.name} deleted the job."
    jobs.cancel_many(actor=actor, job_ids=journal.lock_with_parts(job), reason=reason)
    if Job.objects.filter(Q(pk=job.pk) | Q(part_of=job.pk), deleted_at=None).update(deleted_at=clock.now()):
        audit.record(actor, "compute.delete_job", job)
        tasks.enqueue_on_commit("compute.purge_deleted_jobs")


def _check_parts(submission: Submission) -> None:
    if submission.completions == 1:
        if submission.parallelism > 1:
            raise InvalidJobSpec("Parallelism needs completions: how many parts are to succeed.")
        if not submission.retries:
            return
    if submission.placing.launcher is not None:
        raise InvalidJobSpec("A job with completions or retries has no launcher.")
    if submission.replicas > 1 or submission.jupyter:
        raise InvalidJobSpec("A job with completions or retries has no replicas, and runs no Jupyter.")


def _retries_of(submission: Submission) -> int:
    """Return how often a job, or parts of it, may run again, in all."""
    usual = DEFAULT_RETRIES if submission.completions > 1 else 0
    return usual if submission.retries is None else submission.retries


def _with_jupyter(submission: Submission) -> Submission:
    """Return what a job is that runs a Jupyter: its port, and its command, where they are not named."""
    if not submission.jupyter:
        return submission
    ports = submission.ports or (_JUPYTER_PORT,)
    # Only the platform connects to it, from its own machine or from within its pod, so it listens on loopback alone.
    command = f"exec jupyter lab --ip=127.0.0.1 --port={ports[0]} --ServerApp.port_retries=0 --no-browser --allow-root"
    return replace(submission, ports=ports, command=submission.command.strip() or command)


def require_own(*, actor: Actor, job: Job, permission: Permission) -> None:
    """Raise PermissionDenied unless the actor may do this, JobBelongsToRun for the job of a step, and JobIsPart."""
    require(actor, permission, job.project_id)
    if job.kind != KIND:
        raise JobBelongsToRun(f"{job.label} is a step of a run.")
    job_selectors.require_whole(job)


def cancel_work(*, actor: Actor, username: str) -> None:
    """Cancel the jobs that a person submitted by hand and that have not ended."""
    for job in job_selectors.list_live_of([username], kind=KIND):
        jobs.cancel_job(actor=actor, job=job, reason=f"{username} was disabled, and their work stopped.")


def _fault_of_image(image: str) -> str:
    fault = bounds.line_fault(image)
    return f"'{image}' cannot name an image. {fault}" if fault else ""


def _find_free_name(name: str) -> str:
    """Return what a job is called within the platform, where a name is used once. Raises JobNameTaken."""
    own_name = job_selectors.find_free_name(chain([name], (f"{name}.{number}" for number in count(2))))
    # In this order: another job that is called so since the look above has `own_name`, and one before is seen here.
    if job_selectors.find_named(name) is not None:
        raise JobNameTaken(f"There is a job called '{name}' already.")
    return own_name


def _find_code(project: Project, root: str) -> StoredTree | None:
    """Return the tree of a project that is the code of a job; None where it has none. Raises CodeNotFound."""
    if not root:
        return None
    try:
        return tree_selectors.get_tree_of(_SYSTEM, project.pk, root)
    except TreeNotFound as error:
        raise CodeNotFound(f"{project.name} has no code with the hash {root[:12]}.") from error


def _describe(reference: str, commit: ResolvedCommit) -> dict[str, object]:
    """Return what is told of a dataset that a job reads."""
    return {
        "name": commit.dataset.name,
        "reference": reference,
        "dataset": f"{commit.dataset.project.name}/{commit.dataset.name}",
        "commit": commit.commit.pk,
        "cached": True,
    }
