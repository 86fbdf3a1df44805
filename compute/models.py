"""Places where jobs run, the named shapes that jobs may have there, jobs, and what happened to them."""

import uuid
from datetime import timedelta
from decimal import Context
from enum import StrEnum
from functools import cached_property
from typing import Any

from django.db import models

from compute.engine.environment import UNCAPPED
from compute.engine.idleness import IdleTimes, Use
from compute.engine.job_spec import DEFAULT_GRACE_PERIOD_S, name_of_run
from compute.engine.placing import PodOptions
from compute.engine.states import HOLDING, JOB_STATES, UNKNOWN, Gate, JobState, ReasonCode, explain_unknown
from core import priorities
from core.orm import BaseModel, live_field
from core.units import ONE_GPU


class ResourceState(StrEnum):
    """Whether the resource answers."""

    READY = "ready"
    UNREACHABLE = "unreachable"


class Resource(BaseModel):
    """A place where jobs run, of one of the kinds in the registry (`adapters.drivers`).

    `config` holds what is special to its kind, such as the declared nodes of a simulated one; `credentials` is
    encrypted JSON, empty where none are needed. `is_simulated`: its nodes do not exist.
    `unconfined_reason` says why its jobs have no sandbox that keeps them from the platform's files; empty: they have.
    `facts` is what it said of itself at `facts_at`, for people only (see `node_reports`).
    `site_links` list the cache sites whose copies its jobs can read, the nearest first. `host` is the id of the host
    whose controller drives it, empty where any may (see `core.hosts`). A detached one
    stays as the history of its jobs; its name is free again.
    """

    id_prefix = "res"

    name = models.CharField(max_length=63)
    kind = models.CharField(max_length=20)
    is_simulated = models.BooleanField(default=False)
    config = models.JSONField(default=dict)
    credentials = models.BinaryField(default=b"")
    host = models.CharField(max_length=64, blank=True)
    state = models.CharField(
        max_length=20, choices=[(state.value, state.value) for state in ResourceState], default=ResourceState.READY
    )
    error = models.TextField(blank=True)
    unconfined_reason = models.TextField(blank=True)
    last_contact_at = models.DateTimeField(null=True)
    facts = models.JSONField(default=dict)
    facts_at = models.DateTimeField(null=True)
    detached_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["name"], condition=models.Q(detached_at=None), name="one_attached_resource_per_name"
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def sites(self) -> list[str]:
        """The names of the cache sites whose copies its jobs can read, the nearest first. Needs the links at hand."""
        return [link.site for link in sorted(self.site_links.all(), key=lambda link: link.position)]

    @property
    def is_lost(self) -> bool:
        """Whether it did not answer when it was last asked."""
        return self.state == ResourceState.UNREACHABLE

    @property
    def cache_site(self) -> str:
        """The first of its sites; empty: it has none. For one release, beside `sites`."""
        return next(iter(self.sites), "")


class ResourceSite(BaseModel):
    """A cache site that jobs of a resource can read, by its name, which never changes. Position 0 is the nearest."""

    id_prefix = "rsite"

    resource = models.ForeignKey(Resource, on_delete=models.CASCADE, related_name="site_links")
    site = models.CharField(max_length=63, db_index=True)
    position = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["resource", "site"], name="one_link_per_resource_and_site")]

    def __str__(self) -> str:
        return self.site


_MOST_DIGITS = 400


class PriceField(models.DecimalField):  # type: ignore[type-arg]  # generic for the checker only
    """An amount of money, read as it is stored: SQLite may hold one that no longer may be written."""

    @cached_property
    def context(self) -> Context:
        """With digits enough for any number that is read."""
        return Context(prec=_MOST_DIGITS)

    def deconstruct(self) -> Any:
        """Stand in migrations as the field that it is in the database."""
        name, _path, arguments, options = super().deconstruct()
        return name, "django.db.models.DecimalField", arguments, options


class Template(BaseModel):
    """A named shape on one resource, known as `resource.template`. `gpu_milli`: 500 is half a device, 2000 two.

    `pod` is what it says of the pods of its jobs (`engine.pod_options.PodOptions`), where they are pods of a cluster.
    `pool` names the pool of its resource in which its jobs are, where labels divide that; empty: any, or the first.
    """

    id_prefix = "tmpl"

    resource = models.ForeignKey(Resource, on_delete=models.CASCADE, related_name="templates")
    name = models.CharField(max_length=63)
    cpu_millicores = models.PositiveBigIntegerField()
    memory_bytes = models.PositiveBigIntegerField()
    gpu_milli = models.PositiveBigIntegerField(default=0)
    labels = models.JSONField(default=dict)
    pod = models.JSONField(default=dict)
    pool = models.CharField(max_length=63, blank=True, default="")
    price_per_hour = PriceField(max_digits=10, decimal_places=4, null=True, default=None)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["resource", "name"], name="one_template_per_name")]

    def __str__(self) -> str:
        return self.full_name

    @property
    def is_stored(self) -> bool:
        """Whether it is a row of the database, and not made for one job."""
        return not self._state.adding

    @property
    def pod_words(self) -> list[tuple[str, str]]:
        """What it says of pods, for people: names and values."""
        return PodOptions.read(self.pod).in_words()

    @property
    def full_name(self) -> str:
        """The name under which flows ask for it. Needs the resource at hand."""
        return f"{self.resource.name}.{self.name}"


def new_token() -> str:
    """Return a fencing token: who does not know it cannot report about the job."""
    return uuid.uuid4().hex


class Checkpoint(BaseModel):
    """The checkpoint folder of a submitted job, or of all attempts of a step: `owner` is `job:ID` or `step:ID`.

    One that no later job may have, as its last one has succeeded or it is being deleted, has `~` and its own id behind
    that.

    What it holds lies on `resource`, made there of the stored tree `root` of a dataset; without a resource it is just
    that tree, and without a root nothing. `is_wanted`: a job waits elsewhere until it is stored. `error` says what of
    it is not. `deleted_at` is when it was deleted, as no job needed it any more.
    The last checkpoint that its jobs told of is `step`, made at `saved_at`. Its last run that ended without success
    did so at `interrupted_at`; the next one goes on from `resumed_step`, and `lost_s` of work are done again.
    """

    id_prefix = "ckpt"

    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="checkpoints")
    owner = models.CharField(max_length=250, unique=True)
    resource = models.ForeignKey(Resource, on_delete=models.SET_NULL, null=True, related_name="checkpoints")
    dataset_id = models.CharField(max_length=32, blank=True)
    root = models.CharField(max_length=64, blank=True)
    is_wanted = models.BooleanField(default=False)
    error = models.TextField(blank=True)
    step = models.BigIntegerField(null=True)
    saved_at = models.DateTimeField(null=True)
    interrupted_at = models.DateTimeField(null=True)
    resumed_step = models.BigIntegerField(null=True)
    lost_s = models.FloatField(null=True)
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["id"], name="wanted_checkpoints", condition=models.Q(is_wanted=True)),
            models.Index(fields=["id"], name="present_checkpoints", condition=models.Q(deleted_at=None)),
        ]

    def __str__(self) -> str:
        return f"checkpoint of {self.owner}"


class OutputState(StrEnum):
    """What became of a job's output. Empty until it is stored, which may be never asked for."""

    NONE = ""
    STORED = "stored"
    FAILED = "failed"


class Job(BaseModel):
    """One command on a compute resource. Its name is unique for all time, so submitting it again is harmless.

    `title` is what people call it where that is not its name (see `label`). One that a person deleted (`deleted_at`) is
    shown no more, and its row stays; the next job that is to be called so has that as its title. A job of a run
    that was deleted is too. `purged_at` is when the store let go of its log, its code, and an output that nobody shows.
    One with a `gate` waits for its datasets and has no `workload` yet; the gate says who queues it.
    `state` changes only by compare-and-set. While a job is starting, running or stopping, its lease is renewed by
    whoever sees it on its resource; a lease that runs out says that nobody does. The size is copied from the template,
    so that a changed template does not change the past; one that was submitted with a size of its own has no template.
    `grace_period_s` is how long it may take to end once it was sent SIGTERM.
    `ran_before` is how long its runs before the present one ran together.
    `unplaced` counts the last of its runs, in a row, that its cluster did not place on a node.
    `checkpoint` is the folder that outlives its runs; None: it has none.
    `idle_limit_s` is how long it may be idle by its own submission; None: as long as its queue lets it.
    `evictions` counts how often it was stopped to run again, evicted or suspended: each run has a token of its own, and
    a name of its own on the resource. `last_lines` are the last lines of the log of a failed job that say why.
    `log_bytes` of its log are in the project's store, from `log_stored_at` on all of it.
    A gang is `replica_count` replicas, each as large as its template. One with a launcher has one more pod, which has
    rank 0, no GPUs, and this size; without one that is 0. Once it is placed, `replicas` says of each pod, by
    rank, its `node`, `gpus` and `slices`, its `pod` in the scheduler, and how it stands (`state`, `reason`);
    `node_name`, `gpus` and `slices` are those of replica 0. `gpu_check` says what its present run can see of GPUs
    (`engine.gpu_check`); empty: nobody has found out. With `min_replicas` it is elastic: it runs with so many of
    them up to all; 0: with all of them. `slices` names slices of GPUs (MIG), as `Launch` does.
    With `completions` of more than one, or with `retries`, it runs as parts, at most `parallelism` at once: jobs that
    are `part_of` it, one for each try of a `part_index`. It stays pending itself, and holds nothing; its size is that
    of each part. Of those `parts_done` have succeeded and `parts_running` hold resources, as far as has been noted.
    `output_root` is the root of its output among its project's stored trees; empty: it left no file, or none is stored.
    `output_error` says what of its output is not stored, and why. `output_folder` is where it lies on the host where it
    ran, for jobs that run there too; empty: in no folder.
    """

    id_prefix = "job"

    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="jobs", db_index=False)
    name = models.CharField(max_length=200, unique=True)
    title = models.CharField(max_length=300, blank=True)
    kind = models.CharField(max_length=30)
    resource = models.ForeignKey(Resource, on_delete=models.PROTECT, related_name="jobs")
    template = models.ForeignKey(Template, on_delete=models.SET_NULL, null=True, related_name="jobs")
    template_name = models.CharField(max_length=127)
    cpu_millicores = models.PositiveBigIntegerField()
    memory_bytes = models.PositiveBigIntegerField()
    gpu_milli = models.PositiveBigIntegerField(default=0)
    priority = models.IntegerField(default=50)
    is_preemptible = models.BooleanField(default=True)
    grace_period_s = models.FloatField(default=DEFAULT_GRACE_PERIOD_S)
    idle_limit_s = models.FloatField(null=True, default=None)
    spec = models.JSONField()
    submitted_by = models.CharField(max_length=200)

    checkpoint = models.ForeignKey(Checkpoint, on_delete=models.SET_NULL, null=True, related_name="jobs")
    workload = models.OneToOneField("scheduler.Workload", on_delete=models.SET_NULL, null=True, related_name="job")
    gate = models.CharField(max_length=10, blank=True, choices=[(gate.value, gate.value) for gate in Gate])
    node_name = models.CharField(max_length=253, blank=True)
    gpus = models.JSONField(default=list)
    slices = models.JSONField(default=list)
    gpu_check = models.JSONField(default=dict)
    replica_count = models.PositiveIntegerField(default=1)
    min_replicas = models.PositiveIntegerField(default=0)
    launcher_cpu_millicores = models.PositiveBigIntegerField(default=0)
    launcher_memory_bytes = models.PositiveBigIntegerField(default=0)
    replicas = models.JSONField(default=list)
    completions = models.PositiveIntegerField(default=1)
    parallelism = models.PositiveIntegerField(default=1)
    retries = models.PositiveIntegerField(default=0)
    parts_done = models.PositiveIntegerField(default=0)
    parts_running = models.PositiveIntegerField(default=0)
    part_of = models.ForeignKey("self", on_delete=models.CASCADE, null=True, related_name="parts", db_index=False)
    part_index = models.PositiveIntegerField(null=True)

    state = models.CharField(
        max_length=20, choices=[(state.value, state.value) for state in JobState], default=JobState.PENDING
    )
    token = models.CharField(max_length=32, default=new_token)
    starts = models.PositiveIntegerField(default=0)
    evictions = models.PositiveIntegerField(default=0)
    unplaced = models.PositiveSmallIntegerField(default=0)
    ran_before = models.DurationField(default=timedelta(0))
    lease_expires_at = models.DateTimeField(null=True)
    event_seq = models.PositiveIntegerField(default=0)
    exit_code = models.IntegerField(null=True)
    reason_code = models.CharField(max_length=30, blank=True, choices=[(code.value, code.value) for code in ReasonCode])
    reason = models.TextField(blank=True)
    last_lines = models.TextField(blank=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)
    purged_at = models.DateTimeField(null=True)
    files_deleted_at = models.DateTimeField(null=True)
    log_bytes = models.PositiveBigIntegerField(default=0)
    log_stored_at = models.DateTimeField(null=True)
    is_live = live_field(JOB_STATES.live)
    output_state = models.CharField(
        max_length=10, choices=[(state.value, state.value) for state in OutputState], blank=True
    )
    output_root = models.CharField(max_length=64, blank=True)
    output_files = models.BigIntegerField(default=0)
    output_bytes = models.BigIntegerField(default=0)
    output_error = models.TextField(blank=True)
    output_folder = models.TextField(blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["resource", "state"], name="live_jobs", condition=models.Q(is_live=True)),
            models.Index(
                fields=["state"], name="jobs_without_workload", condition=models.Q(workload=None, is_live=True)
            ),
            models.Index(
                fields=["state"], name="live_interactive_jobs", condition=models.Q(is_live=True, is_preemptible=False)
            ),
            models.Index(
                fields=["state"], name="live_limited_jobs", condition=models.Q(is_live=True, idle_limit_s__isnull=False)
            ),
            models.Index(
                fields=["state"], name="live_elastic_jobs", condition=models.Q(is_live=True, min_replicas__gt=0)
            ),
            models.Index(fields=["part_of", "id"], name="parts_of_jobs", condition=models.Q(part_of__isnull=False)),
            models.Index(fields=["finished_at"], name="jobs_with_files", condition=models.Q(files_deleted_at=None)),
            models.Index(fields=["state"], name="jobs_with_unstored_log", condition=models.Q(log_stored_at=None)),
            models.Index(
                fields=["id"], name="deleted_jobs", condition=models.Q(deleted_at__isnull=False, purged_at=None)
            ),
            models.Index(
                fields=["id"],
                name="purged_jobs_with_files",
                condition=models.Q(purged_at__isnull=False, files_deleted_at=None),
            ),
            models.Index(fields=["project", "id"], name="jobs_of_project"),
            models.Index(fields=["project", "state", "id"], name="jobs_of_project_by_state"),
        ]

    def __str__(self) -> str:
        return self.label

    @property
    def left_nothing(self) -> bool:
        """Whether it is known that its output holds no file."""
        return self.output_state == OutputState.STORED and not (self.output_files or self.output_error)

    @property
    def label(self) -> str:
        """What people call it: `digits #7 · train C=10` for the job of a step, else its name."""
        return self.title or self.name

    @property
    def is_unknown(self) -> bool:
        """Whether its resource has it and does not answer, so that nobody knows how it stands. Needs that at hand."""
        return self.state in HOLDING and self.resource.is_lost

    @property
    def state_shown(self) -> str:
        """Its state as people see it: `unknown` where the last one that was reported may be over."""
        return UNKNOWN if self.is_unknown else self.present_state

    @property
    def has_parts(self) -> bool:
        """Whether it runs as parts, and holds nothing itself."""
        return self.completions > 1 or self.retries > 0

    @property
    def present_state(self) -> str:
        """Its state; one that runs as parts is running while any of them is."""
        return JobState.RUNNING if self.parts_running and self.state == JobState.PENDING else self.state

    @property
    def reason_shown(self) -> str:
        """Why it is as it is, as people see it. Needs resource, workload and its answer at hand."""
        if self.is_unknown:
            return explain_unknown(self.resource.name, JobState(self.state))
        return self.wait_reason if self.state == JobState.PENDING else self.reason

    @property
    def gpu_cap(self) -> str:
        """What keeps it to its part of a GPU: `uncapped` is nothing. Empty: it has no part of one, or a slice."""
        is_part = self.gpu_milli % ONE_GPU or any(milli % ONE_GPU for _, gpus in self.places for _, milli in gpus)
        return UNCAPPED if is_part and not self._has_slices else ""

    @property
    def gpu_check_shown(self) -> str:
        """What it sees of GPUs, as people see it; empty: it has none, or none yet. Needs the resource at hand."""
        has_gpus = self._has_slices or any(gpus for _, gpus in self.places)
        if not has_gpus or self.started_at is None or self.resource.is_simulated:
            return ""
        return str(self.gpu_check.get("text", "")) or "Not known: its resource has not told what it sees."

    @property
    def _has_slices(self) -> bool:
        return bool(self.slices) or any(each.get("slices") for each in self.replicas)

    @property
    def has_launcher(self) -> bool:
        """Whether one more pod, without GPUs, runs its command, and its replicas wait for that."""
        return self.launcher_cpu_millicores > 0

    @property
    def pod_count(self) -> int:
        """How many pods it has: its replicas, and its launcher."""
        return self.replica_count + self.has_launcher

    @property
    def is_gang(self) -> bool:
        """Whether it has several pods."""
        return self.pod_count > 1

    @property
    def priority_name(self) -> str:
        """The name that its priority has; empty: none."""
        return priorities.name_of(self.priority)

    @property
    def wait_reason(self) -> str:
        """Why it is pending, as far as anybody has said. Needs the workload and its answer at hand."""
        reason = self.workload.why if self.workload is not None else ""
        return self.reason or reason or "The scheduler decides within a second."

    @property
    def gpu_asked_milli(self) -> int:
        """What all of its replicas, or of its parts that may run at once, ask of GPUs, in thousandths."""
        return self.parallelism * self.replica_count * self.gpu_milli

    @property
    def gpu_held_milli(self) -> int:
        """What it, or its parts, hold of GPUs now, in thousandths."""
        if self.has_parts:
            return self.parts_running * self.gpu_milli if self.present_state == JobState.RUNNING else 0
        return sum(milli for _, gpus in self.places for _, milli in gpus) if self.state in HOLDING else 0

    @property
    def places(self) -> list[tuple[str, list[list[int]]]]:
        """The node and the GPUs of each of its replicas, by rank, also where it has only one."""
        return [(each["node"], each["gpus"]) for each in self.replicas] or [(self.node_name, self.gpus)]

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Thousandths of cores, and bytes of memory, that it has at each of its places."""
        launcher = [(self.launcher_cpu_millicores, self.launcher_memory_bytes)] if self.has_launcher else []
        return [*launcher, *[(self.cpu_millicores, self.memory_bytes)] * self.replica_count]

    @property
    def node_names(self) -> list[str]:
        """The nodes of its replicas, each once, that of replica 0 first; none while it has no place."""
        return list(dict.fromkeys(node for node, _ in self.places if node))

    @property
    def nodes_shown(self) -> str:
        """The same for people, in a few characters: `dgx-1`, or `dgx-1 and 2 more`."""
        names = self.node_names
        return " and ".join([*names[:1], *([f"{len(names) - 1} more"] if len(names) > 1 else [])])

    @property
    def run_names(self) -> list[str]:
        """The names of its runs on its resource, oldest first; the last one is the present one, or the next."""
        return [name_of_run(self.name, count) for count in range(self.evictions + 1)]

    @property
    def run_name(self) -> str:
        """The name of its present run on its resource."""
        return name_of_run(self.name, self.evictions)

    @property
    def has_ended(self) -> bool:
        """Whether nothing more can happen to it."""
        return JobState(self.state) in JOB_STATES.final


class JobUse(BaseModel):
    """By what a job with an idle limit was last known to be used, as far as anybody can measure that.

    There is one for each running job that has a limit, its own or that of its queue: `limit_s` is the shorter one.
    `token` is that of the run. The job was used at `used_at`, by `used_by`. At `looked_at` its log had `log_bytes`,
    and the last sample of its CPU was taken at `sampled_at`; the next check is at `look_at`. `unknown_reason` says why
    nobody can measure its use; empty: it is measured. Its owners were warned of its end at `warned_at`.
    """

    id_prefix = "use"

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="use")
    token = models.CharField(max_length=32)
    limit_s = models.FloatField()
    used_at = models.DateTimeField()
    used_by = models.CharField(max_length=20, choices=[(use.value, use.value) for use in Use])
    looked_at = models.DateTimeField()
    look_at = models.DateTimeField()
    log_bytes = models.PositiveBigIntegerField(default=0)
    sampled_at = models.DateTimeField()
    unknown_reason = models.TextField(blank=True)
    warned_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"use of {self.job_id}"

    @property
    def times(self) -> IdleTimes:
        """What follows from it, and when."""
        return IdleTimes(timedelta(seconds=self.limit_s), self.used_at, self.warned_at)


class JobGpuUse(BaseModel):
    """What a job used of its GPUs over time, on a place that remembers nothing: `engine.gpu_history.Reading`s."""

    id_prefix = "guse"

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="gpu_use")
    readings = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"GPU use of {self.job_id}"


class JobEvent(BaseModel):
    """One thing that happened to a job. `seq` counts from 1 without gaps."""

    id_prefix = "jev"

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events", db_index=False)
    seq = models.PositiveIntegerField()
    state = models.CharField(max_length=20)
    message = models.TextField()
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "seq"], name="one_job_event_per_seq")]

    def __str__(self) -> str:
        return f"{self.job_id} #{self.seq}: {self.message}"


class SimulatedJob(BaseModel):
    """A job as a simulated resource knows it. Only its driver reads it; to all else it is as far away as a cluster.

    `replicas` is how many it has; `node` and `gpus` name those of all.
    `duration_s` and `timeout_s` count from `started_at`. One that is forgotten is listed no more, and still readable.
    """

    id_prefix = "sim"

    resource = models.ForeignKey(Resource, on_delete=models.CASCADE, related_name="simulated_jobs")
    name = models.CharField(max_length=220)
    token = models.CharField(max_length=32)
    node = models.TextField()
    gpus = models.TextField()
    replicas = models.PositiveIntegerField(default=1)
    command = models.TextField()
    cpu_millicores = models.PositiveBigIntegerField()
    memory_bytes = models.PositiveBigIntegerField()
    duration_s = models.FloatField()
    timeout_s = models.FloatField(null=True)
    started_at = models.DateTimeField()
    stopped_at = models.DateTimeField(null=True)
    is_forgotten = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["resource", "name"], name="one_simulated_job_per_name")]
        indexes = [
            models.Index(fields=["resource"], name="live_simulated_jobs", condition=models.Q(is_forgotten=False))
        ]

    def __str__(self) -> str:
        return self.name


class JobVolume(BaseModel):
    """A claim of a cluster that a job mounts. It is forgotten with the job's files: then nothing keeps the claim."""

    id_prefix = "jvol"

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="mounted_volumes")
    claim = models.CharField(max_length=253)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["claim", "job"], name="one_volume_per_claim_and_job")]

    def __str__(self) -> str:
        return f"{self.claim} of {self.job_id}"


class StoredLogChunk(BaseModel):
    """Some bytes of a job's log in the project's store: a file of a stored tree, named after job and offset.

    `ends_line`: the next chunk begins with a line. `index` says what a search will not find in it; empty: nothing.
    """

    id_prefix = "logc"

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="log_chunks", db_index=False)
    offset = models.PositiveBigIntegerField()
    size_bytes = models.PositiveIntegerField()
    dataset_id = models.CharField(max_length=32)
    root = models.CharField(max_length=64)
    ends_line = models.BooleanField()
    index = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "offset"], name="one_log_chunk_per_offset")]
        indexes = [models.Index(fields=["root"], name="log_chunks_of_tree")]

    def __str__(self) -> str:
        return f"{self.job_id} from {self.offset}"
