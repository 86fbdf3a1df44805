"""What the server says about things, as typed records. Unknown fields stay in `raw`, so an older client loses none."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from threading import Lock
from typing import Any, ClassVar, Self, dataclass_transform

_completion = Lock()


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
@dataclass(frozen=True, kw_only=True)
class Record:
    """One thing as the server described it. Fields whose name ends in `_at` are times.

    Each kind is a dataclass, and becomes one when it is first used: to make all of them takes longer than the rest of
    what a command does before its first request.
    """

    nested: ClassVar[Mapping[str, "type[Record]"]] = {}
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    def __new__(cls, **_: Any) -> Self:
        """Return a record that is still empty."""
        cls._complete()
        return super().__new__(cls)

    @classmethod
    def _complete(cls) -> None:
        with _completion:
            for kind in reversed(cls.__mro__):
                if issubclass(kind, Record) and "__dataclass_fields__" not in vars(kind):
                    dataclass(frozen=True, kw_only=True)(kind)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        """Build the record from the server's JSON."""
        cls._complete()
        values = {item.name: _read(cls, item.name, data[item.name]) for item in fields(cls) if item.name in data}
        needed = [item.name for item in fields(cls) if item.default is MISSING and item.default_factory is MISSING]
        needed.remove("raw")
        if data.keys().isdisjoint(needed):
            # It is another thing altogether; the answer refuses the lookup in words that name the server.
            data[needed[0]]
        return cls(**{**dict.fromkeys(needed), **values, "raw": data})

    def to_json(self) -> Mapping[str, Any]:
        """Return what the server said, whole."""
        return self.raw


def _read(cls: type[Record], name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in cls.nested:
        kind = cls.nested[name]
        return tuple(kind.read(item) for item in value) if isinstance(value, list) else kind.read(value)
    if name.endswith("_at") and isinstance(value, str):
        return datetime.fromisoformat(value)
    return tuple(value) if isinstance(value, list) else value


class Commit(Record):
    """One version of a dataset."""

    id: str
    short: str
    parent: str | None
    root: str
    message: str
    author: str
    source: str
    created_at: datetime
    files: int
    size_bytes: int
    merged: str | None = None
    added: int = 0
    removed: int = 0
    changed: int = 0
    branches: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    cached: tuple[Mapping[str, Any], ...] = ()

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"commit {self.short}"


class Output(Record):
    """What a job left, as a tree in the store. `left_out` says what of it is not stored, and why."""

    job: str
    project: str
    tree: str
    root: str
    files: int
    size_bytes: int
    left_out: str = ""

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"the output of {self.job}"


class KeptOutput(Record):
    """The commit that the output of a step became."""

    dataset: str
    branch: str
    commit: str
    files: int
    size_bytes: int


class Dataset(Record):
    """A versioned tree of files that belongs to a project."""

    nested = {"newest_commit": Commit}

    id: str
    project: str
    name: str
    reference: str
    description: str
    kind: str
    files: int
    size_bytes: int
    default_branch: str
    newest_commit: Commit | None
    url: str
    created_at: datetime


class DeletedDataset(Record):
    """A dataset that was deleted; `restore_ends_at` is None where it was for good."""

    id: str
    project: str
    name: str
    reference: str
    deleted_at: datetime
    deleted_by: str | None
    restore_ends_at: datetime | None
    stored_bytes: int = 0


class DeletionItem(Record):
    """A thing that the deletion of a project concerns."""

    name: str
    text: str


class DeletionEffect(Record):
    """What the deletion of a project does to things of one kind: how many, and what becomes of them as a sentence."""

    nested: ClassVar[Mapping[str, type[Record]]] = {"items": DeletionItem}

    kind: str
    count: int
    text: str
    size_bytes: int
    items: tuple[DeletionItem, ...]


class DeletionForecast(Record):
    """What the deletion of a project would do. `restore_days` 0: it cannot be restored."""

    nested: ClassVar[Mapping[str, type[Record]]] = {"effects": DeletionEffect}

    project: str
    restore_days: int
    effects: tuple[DeletionEffect, ...]


class DeletedProject(Record):
    """A project that was deleted; `restore_ends_at` is None where it was for good, then `waits_for` may say more."""

    id: str
    name: str
    deleted_at: datetime
    deleted_by: str | None
    restore_ends_at: datetime | None
    waits_for: str = ""


class Branch(Record):
    """A name that moves with each commit made on it."""

    name: str
    head: str | None
    updated_at: datetime | None


class Tag(Record):
    """A name that stays on one commit."""

    name: str
    commit: str


class Query(Record):
    """Conditions on files under a name; `reference` names what it selects wherever a dataset is named."""

    name: str
    ref: str
    reference: str
    description: str
    globs: tuple[str, ...] = ()
    contains: str = ""
    regex: str = ""
    types: tuple[str, ...] = ()
    min_size_bytes: int | None = None
    max_size_bytes: int | None = None
    file_tags: tuple[str, ...] = ()
    tags_file: str = ""
    created_by: str | None = None


class File(Record):
    """A file or folder of a commit."""

    name: str
    path: str
    kind: str
    size_bytes: int
    files: int | None = None
    content_id: str | None = None


class CachedCommit(Record):
    """A commit on a cache site, and how far it is. `users` say what uses it now, as "read by train"."""

    id: str
    dataset: str
    commit: str
    site: str
    state: str
    files_done: int
    files_total: int
    bytes_done: int
    bytes_total: int
    bytes_moved: int
    bytes_shared: int
    percent: float
    rate_bytes_s: float | None
    eta_s: float | None
    path: str | None
    pinned: bool
    users: tuple[str, ...]
    last_used_at: datetime | None
    last_used_by: str | None
    evicts_at: datetime | None
    error: str | None
    is_simulated: bool = False


class SiteArray(Record):
    """The storage array behind a cache site. `space` is what it told at `read_at`; `error`: why it tells nothing."""

    site: str
    url: str
    svm: str
    volumes: str
    space: tuple[Mapping[str, Any], ...]
    read_at: datetime
    unknown_since: str | None
    error: str | None


class CacheEvent(Record):
    """What happened to a cached commit."""

    at: str
    kind: str
    state: str
    message: str
    facts: Mapping[str, Any]


class Flow(Record):
    """A pipeline and its newest version."""

    name: str
    project: str
    updated_at: datetime | None

    @property
    def newest_text(self) -> str:
        """The newest version, short."""
        newest = self.raw.get("newest_version") or self.raw.get("version") or {}
        text = newest.get("hash") or newest.get("id") if isinstance(newest, Mapping) else newest
        return str(text or "-")[:12]

    @property
    def text(self) -> str:
        """The file of the version that was asked for; empty in lists."""
        return str((self.raw.get("version") or {}).get("text", ""))


class Step(Record):
    """One step of a run."""

    key: str
    index: int | None
    state: str
    reason: str | None
    advice: str | None
    template: str | None
    experiment_id: str | None
    started_at: datetime | None
    finished_at: datetime | None
    is_simulated: bool = False
    depends_on: tuple[str, ...] = ()
    attempts: tuple[Mapping[str, Any], ...] = ()

    @property
    def label(self) -> str:
        """The step's name, with its number inside a grid."""
        return str(self.raw.get("label") or (self.key if self.index is None else f"{self.key}[{self.index}]"))

    @property
    def times(self) -> Mapping[str, float | None]:
        """The seconds that it waited (`waited_s`), ran (`ran_s`) and took in all (`total_s`), as far as known."""
        return self.raw.get("times") or {}

    @property
    def last_lines(self) -> str:
        """The lines of the newest attempt's log that say why it failed."""
        return str(self.attempts[-1].get("last_lines") or "") if self.attempts else ""

    @property
    def seconds(self) -> float | None:
        """How long it took in all, from its first start to its last end; None while it has not finished."""
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()

    def to_json(self) -> Mapping[str, Any]:
        """Return what the server said, with the label and the seconds."""
        return {**self.raw, "label": self.label, "seconds": self.seconds}


class Run(Record):
    """One execution of a flow."""

    nested = {"steps": Step}

    id: str
    project: str
    flow: str
    number: int
    state: str
    reason: str | None
    parameters: Mapping[str, Any]
    created_by: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    url: str
    steps: tuple[Step, ...] = ()

    FINAL: ClassVar[frozenset[str]] = frozenset({"succeeded", "failed", "cancelled"})

    @property
    def times(self) -> Mapping[str, float | None]:
        """The seconds that it waited (`waited_s`), ran (`ran_s`) and took in all (`total_s`), as far as known."""
        return self.raw.get("times") or {}

    @property
    def is_finished(self) -> bool:
        """Whether nothing more will happen in it."""
        return self.state in self.FINAL

    @property
    def has_succeeded(self) -> bool:
        """Whether it ended well."""
        return self.state == "succeeded"

    def to_json(self) -> Mapping[str, Any]:
        """Return what the server said, with each step's label and seconds."""
        return {**self.raw, "steps": [step.to_json() for step in self.steps]} if self.steps else self.raw


class Project(Record):
    """A team."""

    name: str
    description: str | None
    role: str | None = None


class StoragePart(Record):
    """What one dataset of a project stores, or (`is_dataset` false) outputs and code of jobs."""

    name: str
    stored_bytes: int
    is_dataset: bool = True
    is_deleted: bool = False

    @property
    def label(self) -> str:
        """The name, and whether it is of a deleted dataset."""
        return f"{self.name} (deleted, can be restored)" if self.is_deleted else self.name


class ProjectStorage(Record):
    """What a project stores, and its limit; None: it has none. `leaving_bytes` is not counted.

    `unused_bytes` of what it stores are of uploads that no commit uses; they leave by `freed_at`.
    """

    nested = {"parts": StoragePart}
    project: str
    used_bytes: int
    limit_bytes: int | None
    leaving_bytes: int = 0
    unused_bytes: int = 0
    freed_at: datetime | None = None
    parts: tuple[StoragePart, ...] = ()


class Source(Record):
    """A folder or a part of a bucket that files may be imported from in place.

    Only site admins see its location, and which `datasets` read from it.
    """

    name: str
    kind: str
    location: str = ""
    projects: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    referenced_bytes: int | None = None
    changed_files: int | None = None
    read_at: datetime | None = None


class Import(Record):
    """An import in place. `referenced_bytes` lie in the source, and not in the store.

    `changed` names the first of the `changed_files` that the source did not have as they were at `checked_at`.
    """

    id: str
    source: str
    prefix: str
    state: str
    commit: str | None = None
    branch: str = ""
    directory: str = ""
    files: int = 0
    size_bytes: int = 0
    referenced_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    work_bytes: int = 0
    waits_for: str = ""
    done_bytes: int = 0
    eta_s: float | None = None
    skipped: tuple[str, ...] = ()
    changed_files: int = 0
    changed: tuple[str, ...] = ()
    checked_at: datetime | None = None
    error: str = ""
    error_code: str = ""

    @property
    def is_working(self) -> bool:
        """Whether the server is at work on it."""
        return self.state in {"queued", "running", "promoting", "cancelling"}


class User(Record):
    """A person. `work` is there only when they were just disabled: what runs for them."""

    username: str
    is_site_admin: bool
    is_disabled: bool = False
    work: tuple[Mapping[str, Any], ...] = ()


class Member(Record):
    """A member of a project; `role` is `viewer`, `member` or `admin`."""

    username: str
    role: str
    created_at: datetime


class Secret(Record):
    """A secret of a project, without its value."""

    name: str
    updated_at: datetime


class AuditEntry(Record):
    """Who did what to which thing; `facts` hold what else is known of it."""

    id: str
    created_at: datetime
    actor_name: str
    action: str
    target_kind: str
    target_id: str
    target_name: str
    facts: Mapping[str, Any]


class Token(Record):
    """A personal access token. `secret` is there only when it was just made."""

    id: str
    name: str
    created_at: datetime | None
    expires_at: datetime | None
    last_used_at: datetime | None
    secret: str | None = field(default=None, repr=False)


class Resource(Record):
    """A place where jobs run. A simulated one has nodes and GPUs that do not exist."""

    name: str
    kind: str
    state: str | None = None
    is_simulated: bool = False
    nodes: tuple[Mapping[str, Any], ...] = ()
    sites: tuple[str, ...] = ()
    host: str = ""
    foreign_gpus: Mapping[str, int] | None = None
    storage_probe: Mapping[str, Any] | None = None
    cluster: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()


class ResourceEvent(Record):
    """Something that happened to a resource; `source` is `platform`, `scheduler` or `cluster`."""

    at: str
    source: str
    text: str
    is_warning: bool = False
    by: str = ""
    job: str = ""


class ResourceLoss(Record):
    """What ends with a resource that is given up, in sentences."""

    resource: str
    effects: tuple[str, ...]


class Template(Record):
    """A named shape on one resource."""

    name: str
    resource: str | None
    cpu_millicores: int | None
    memory_bytes: int | None
    gpu_milli: int | None
    is_simulated: bool = False
    pool: str = ""

    @property
    def full_name(self) -> str:
        """The name by which a step asks for it: `resource.template`."""
        return self.name if "." in self.name or not self.resource else f"{self.resource}.{self.name}"


class Sharing(Record):
    """The rules by which the queues of a pool share. `preset` names the set that they are; empty: they are their own.

    A claim of n GPUs takes nothing from other queues for `claim_delay_s` / n, unless its queue claims 8 in all. It
    spares what has run for less than `reclaim_min_runtime_s`; one beyond the quota also what has run for less than
    `surplus_min_runtime_s` or was stopped `surplus_evictions_at_most` times. A job that was stopped `evictions_at_most`
    times is spared. Running work is moved together every `consolidate_every_s` at most. Use counts half after
    `usage_half_life_s`, and `usage_pull` says how much past use lowers a share; 0: not at all.
    """

    preset: str
    claim_delay_s: float
    reclaim_min_runtime_s: float
    surplus_min_runtime_s: float
    evictions_at_most: int
    surplus_evictions_at_most: int
    consolidate_every_s: float
    usage_half_life_s: float
    usage_pull: float


class PoolLabel(Record):
    """A label by which nodes of a resource are in a pool, and how many of them there are now."""

    resource: str
    label: str
    nodes: int = 0


class Pool(Record):
    """The nodes of some resources, over which quotas and fair shares are worked out; of some only those by `labels`."""

    nested: ClassVar[Mapping[str, type[Record]]] = {"sharing": Sharing, "labels": PoolLabel}

    name: str
    sharing: Sharing | None = None
    resources: tuple[str, ...] = ()
    labels: tuple[PoolLabel, ...] = ()
    nodes: int = 0
    gpu_milli: int = 0
    has_simulated: bool = False


class QueueSettings(Record):
    """A quota, limits and rules in a pool. Times are in seconds, GPUs in thousandths."""

    pool: str
    gpu_quota_milli: int = 0
    cpu_quota_millicores: int | None = None
    memory_quota_bytes: int | None = None
    over_quota_weight: float | None = None
    gpu_limit_milli: int | None = None
    cpu_limit_millicores: int | None = None
    memory_limit_bytes: int | None = None
    department: str | None = None
    training_node_labels: tuple[str, ...] = ()
    interactive_node_labels: tuple[str, ...] = ()
    training_run_at_most_s: float | None = None
    interactive_run_at_most_s: float | None = None
    training_idle_at_most_s: float | None = None
    interactive_idle_at_most_s: float | None = None
    claim_delay_s: float | None = None
    reclaim_min_runtime_s: float | None = None
    surplus_min_runtime_s: float | None = None
    evictions_at_most: int | None = None
    surplus_evictions_at_most: int | None = None
    preempt_min_runtime_s: float | None = None


class Department(QueueSettings):
    """Projects with a quota, limits and rules together."""

    name: str


class Queue(QueueSettings):
    """The queue of a project in a pool: what is guaranteed to it, its limits and rules, and what it holds."""

    project: str
    pool_rank: int | None = None
    gpu_held_milli: int = 0
    used_gpu_s: float = 0.0
    placed_workloads: int = 0
    waiting_workloads: int = 0


class Loan(Record):
    """GPUs that one project holds of the quota of another. Without a lender no quota covers them."""

    borrower: str
    gpu_milli: int
    text: str
    lender: str | None = None


class BelowShare(Record):
    """A project that holds less than its fair share while it waits; starved: for long, as others borrow."""

    project: str
    gpu_held_milli: int
    gpu_fair_milli: int
    enqueued_at: datetime
    text: str
    is_starved: bool = False


class SmallQuota(Record):
    """A project whose quota does not cover its largest job, or any template of the pool."""

    project: str
    gpu_quota_milli: int
    gpu_needed_milli: int
    text: str


class Standing(Record):
    """How the projects of a pool stand to each other: who uses whose quota, and who waits below its share."""

    nested: ClassVar[Mapping[str, type[Record]]] = {"loans": Loan, "below": BelowShare, "small_quotas": SmallQuota}

    pool: str
    loans: tuple[Loan, ...] = ()
    below: tuple[BelowShare, ...] = ()
    small_quotas: tuple[SmallQuota, ...] = ()


class QueueTrial(Record):
    """A queue before and after a change that was tried. GPUs in thousandths."""

    name: str
    quota_before_milli: int
    quota_after_milli: int
    fair_before_milli: int
    fair_after_milli: int
    held_milli: int
    is_department: bool = False


class JobTrial(Record):
    """A job that the next cycle would start, or stop. `is_anyway`: so it would without the change.

    `is_after_stops`: it starts once what is stopped for it has ended.
    """

    name: str
    queue: str
    gpu_milli: int
    reason: str = ""
    is_anyway: bool = False
    is_after_stops: bool = False


class QuotaTrial(Record):
    """What a change of quotas would do: shares, and what the next cycle would stop, in its order, and start."""

    nested: ClassVar[Mapping[str, type[Record]]] = {"queues": QueueTrial, "stops": JobTrial, "starts": JobTrial}

    pool: str
    sum_text: str
    queues: tuple[QueueTrial, ...] = ()
    stops: tuple[JobTrial, ...] = ()
    starts: tuple[JobTrial, ...] = ()


class IdleState(Record):
    """How a running job stands with its idle limit; `state` is `in_use`, `idle` or `unknown`.

    `stops_at` is when it is stopped unless it is used; None: nobody can say. `is_warned`: that is soon.
    """

    state: str
    limit_s: float
    text: str
    used_at: datetime | None = None
    stops_at: datetime | None = None
    is_warned: bool = False


class Job(Record):
    """What compute runs; `label` is what people call it. `idle` is None where no idle limit holds for it now.

    While it waits, `why` says who holds what it needs and until when; `reason` is what the scheduler said last.

    `is_unknown`: its resource does not answer, so that `state` is the last that was known.

    Of a gang that is placed `replicas` has `node`, `gpus`, `state` and `reason` of each, by rank; a list has none.
    Where a `launcher` runs the command that is the first of them, besides the `replica_count` others.
    Of one with `completions` of more than one `parts` has the tries of each part, by `part_index`, the last one first:
    `name`, `state`, `reason`, `node`, `evictions`; a list has none. `part_index` is that of a part of another job.
    `gpu_check` is what it could see of GPUs at its start: `text`, whether that `differs` from what it was given, and
    `replicas` by rank; None: it has no GPUs, or that is not known, and in a list.
    """

    nested: ClassVar[Mapping[str, type[Record]]] = {"idle": IdleState}

    name: str
    project: str | None
    state: str
    resource: str | None
    template: str | None
    label: str = ""
    node: str = ""
    nodes: tuple[str, ...] = ()
    reason: str = ""
    why: str = ""
    reason_code: str = ""
    command: str = ""
    image: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    volumes: tuple[str, ...] = ()
    gpu_milli: int = 0
    gpu_cap: str = ""
    gpu_check: Mapping[str, Any] | None = None
    pools: tuple[str, ...] = ()
    timeout_s: float | None = None
    idle_limit_s: float | None = None
    idle: IdleState | None = None
    priority: int = 50
    is_preemptible: bool = True
    is_simulated: bool = False
    submitted_by: str = ""
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    is_unknown: bool = False
    replica_count: int = 1
    completions: int = 1
    parallelism: int = 1
    parts_done: int = 0
    parts_running: int = 0
    part_index: int | None = None
    min_replicas: int = 0
    launcher: Mapping[str, Any] | None = None
    gpu_memory_bytes: int = 0
    gpu_limit_milli: int = 0
    mig_profile: str = ""
    slices: tuple[str, ...] = ()
    node_labels: tuple[str, ...] = ()
    required_level: str = ""
    preferred_level: str = ""
    replicas: tuple[Mapping[str, Any], ...] = ()
    parts: tuple[Mapping[str, Any], ...] = ()

    @property
    def pod_count(self) -> int:
        """How many pods it has: its replicas, and its launcher."""
        return self.replica_count + (self.launcher is not None)


class Eviction(Record):
    """The receipt of an eviction: for whom and by which rule a job was stopped, and what that cost.

    `lost_gpu_s` are seconds of one GPU; `has_simulated`: some nodes of the pool are simulated. Each of `alternatives`
    has `label`, `project`, `gpu_milli` and `why_text`.
    """

    id: str
    job: str
    label: str
    project: str
    rule: str
    code: str
    lost_gpu_s: float
    evicted_at: datetime | None = None
    pool: str | None = None
    has_simulated: bool = False
    is_moved: bool = False
    gpu_milli: int = 0
    claimant: str = ""
    claimant_label: str = ""
    claimant_project: str = ""
    claim_class: str = ""
    victim_share: Mapping[str, Any] = field(default_factory=dict)
    claimant_share: Mapping[str, Any] | None = None
    alternatives: tuple[Mapping[str, Any], ...] = ()
    cycle: str = ""


class Consumption(Record):
    """What a project consumed in a pool: seconds of one GPU, and the price of what has one.

    `has_simulated`: some nodes of the pool are simulated.
    """

    project: str
    pool: str
    gpu_s: float
    price: float = 0.0
    has_simulated: bool = False


class IdleGpus(Record):
    """The GPUs that a running job holds and does not use. `gpu_percent` None: nobody measures their use."""

    job: str
    project: str
    label: str = ""
    submitted_by: str = ""
    resource: str = ""
    node: str = ""
    gpu_milli: int = 0
    gpu_percent: int | None = None
    text: str = ""


class EvictionWeek(Record):
    """The evictions of a project in one week; `moves` of them moved to another node."""

    project: str
    begins_at: datetime
    evictions: int
    moves: int
    lost_gpu_s: float


class JobUsage(Record):
    """What a job used at one moment. None: not measured."""

    at: str
    cpu_millicores: int | None
    memory_bytes: int | None
    gpu_percent: float | None
    gpu_memory_used_bytes: int | None


class Node(Record):
    """A machine of a compute resource. Each of `gpus` has `index`, `model`, `memory_bytes` and `held_milli`."""

    id: str
    name: str
    resource: str | None
    is_ready: bool = True
    is_drained: bool = False
    is_simulated: bool = False
    cpu_millicores: int = 0
    memory_bytes: int = 0
    cpu_held_millicores: int = 0
    memory_held_bytes: int = 0
    gpus: tuple[Mapping[str, Any], ...] = ()
    pool: str = ""


class CacheSite(Record):
    """A place near compute that can hold cached commits."""

    name: str
    kind: str | None
    capacity_bytes: int | None
    committed_bytes: int | None
    used_bytes: int | None
    free_bytes: int | None
    idle_days: float | None
    is_simulated: bool = False
    volumes: int | None = None
    max_volumes: int | None = None
    error: str | None = None
    warning: str = ""


class FlowVersion(Record):
    """One version of a flow, named by the hash of what it says."""

    id: str
    project: str
    flow: str
    number: int | None
    hash: str | None
    created_at: datetime | None


class Problem(Record):
    """One thing that is wrong with a flow, and where."""

    line: int | None
    column: int | None
    path: str | None
    step: str | None
    code: str
    message: str
    is_note: bool = False


class Experiment(Record):
    """The record of one attempt of a step."""

    id: str
    project: str
    run: str | None
    step: str | None
    state: str
    parameters: Mapping[str, Any]
    metrics: Mapping[str, Any]
    tags: Mapping[str, Any]
    created_at: datetime | None
    is_simulated: bool = False

    @property
    def label(self) -> str:
        """The step it belongs to."""
        return str(self.raw.get("label") or self.step or "-")
