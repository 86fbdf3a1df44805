"""What the compute routes take and answer."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal

from ninja import Schema
from pydantic import Base64Bytes, Field

from compute.engine.job_spec import DEFAULT_GRACE_PERIOD_S
from compute.engine.outlook import StoppedJob
from compute.engine.ports import MOST_CELLS
from compute.selectors import resources
from compute.selectors.job_rows import Idleness
from compute.selectors.outlooks import Outlook
from compute.selectors.waits import DataWait, Wait
from core import bounds, hosts, priorities
from core.bodies import BodySchema
from core.priorities import Priority
from core.times import Times

Labels = Annotated[dict[bounds.Name, bounds.Name], Field(max_length=100)]


class PodOptions(BodySchema):
    """What a template says of the pods of its jobs on a cluster, besides what the cluster says of all pods."""

    node_selector: Annotated[Labels, Field(description="Labels that a node must have, all of them.")] = {}
    tolerations: Annotated[
        list[bounds.Name],
        Field(max_length=100, description="Taints that they tolerate, as `gpu=only:NoSchedule`, `gpu=only` or `gpu`."),
    ] = []
    priority_class: Annotated[
        bounds.Name, Field(description="In place of that of the cluster; empty: that of the cluster.")
    ] = ""
    image_pull_secrets: Annotated[
        list[bounds.Name], Field(max_length=100, description="Secrets of the namespace by which images are pulled.")
    ] = []


class TemplateOut(Schema):
    """A named shape on a resource."""

    full_name: str
    name: str
    resource: str
    is_simulated: bool
    cpu_millicores: int
    memory_bytes: int
    gpu_milli: int
    labels: dict[str, str]
    pod: PodOptions
    pool: str = Field(description="In which pool of its resource its jobs are, where labels divide that; empty: any.")
    price_per_hour: Decimal | None

    @staticmethod
    def resolve_resource(obj: object) -> str:
        """Return the name of the resource."""
        return obj.resource.name  # type: ignore[attr-defined,no-any-return]

    @staticmethod
    def resolve_is_simulated(obj: object) -> bool:
        """Return whether the resource's nodes do not exist."""
        return obj.resource.is_simulated  # type: ignore[attr-defined,no-any-return]


class ProbeStepOut(Schema):
    """A step of trying a storage class, and how long it took."""

    name: str = Field(description="`bound`, `written`, `cloned`, `read` or `deleted`.")
    seconds: float = Field(description="How long it took.")
    refusal: str = Field("", description="Why claims cannot be cloned; empty: the step went well.")


class StorageProbeOut(Schema):
    """How a claim of 1 GiB fared when a storage class was tried, before its cluster was attached."""

    storage_class: str = Field(description="Which class was tried.")
    at: datetime = Field(description="When.")
    steps: list[ProbeStepOut] = Field(description="What was done with the claim, in that order.")


class StorageClassOut(Schema):
    """A class of volumes of a cluster."""

    name: str = Field(description="What the cluster calls it.")
    provisioner: str = Field(description="What makes its volumes.")
    access: str = Field(description="Who can mount a volume at once: `many nodes`, `one node` or `unknown`.")
    is_default: bool = Field(description="Whether claims that name no class are of it.")
    snapshots: str = Field(
        "unknown", description="Whether a class for snapshots has its driver: `yes`, `no`, `unknown`."
    )
    clones: str = Field("unknown", description="Whether its driver is known to clone claims: `yes`, `no`, `unknown`.")


class BackendOut(Schema):
    """A storage system behind such classes, as Trident reports it."""

    name: str = Field(description="What the cluster calls it.")
    driver: str = Field(description="Which driver of Trident speaks with it.")
    state: str = Field(description="As of Trident's last poll.")
    reason: str = Field(description="Why it is not well.")


class QuotaOut(Schema):
    """How much of one resource all pods of the namespace may have together, in the cluster's own notation."""

    quota: str = Field(description="Its name.")
    resource: str = Field(description="As the cluster calls it: `requests.nvidia.com/gpu`.")
    used: str = Field(description="What pods ask for now.")
    hard: str = Field(description="What they may ask for.")


class ClusterOut(Schema):
    """What a cluster has reported of itself besides its nodes."""

    version: str = Field(description="That of Kubernetes.")
    trident_version: str = Field("", description="Empty: there is no Trident, or the account may not read it.")
    storage: list[StorageClassOut] = Field(description="Its storage classes.")
    backends: list[BackendOut] = Field(description="Those of Trident.")
    quotas: list[QuotaOut] = Field(default=[], description="Those of the namespace.")


class ResourceOut(Schema):
    """A place where jobs run. `host` is the name of the host whose machine it is; empty: it is none's.

    `storage_probe` is what was found out of the storage class when a cluster was attached; null: it was not tried.
    """

    id: str
    name: str
    kind: str
    is_simulated: bool
    state: str
    error: str
    unconfined_reason: str
    last_contact_at: datetime | None
    sites: list[str]
    cache_site: str
    host: str
    templates: list[TemplateOut]
    storage_probe: StorageProbeOut | None = Field(description="How its storage class fared; null: it was not tried.")
    foreign_gpus: dict[str, int] = Field(
        description="How many GPUs pods of others hold, by the names of nodes, whose own lists leave them out."
    )
    cluster: ClusterOut | None = Field(description="What a cluster has reported of itself; null: it is none.")
    warnings: list[str] = Field(
        description="What keeps jobs from some of what the cluster has, and what its account may not do, as sentences."
    )

    @staticmethod
    def resolve_cluster(obj: object) -> object:
        """Return what was written down of a cluster."""
        return resources.find_cluster_facts(obj)  # type: ignore[arg-type]

    @staticmethod
    def resolve_warnings(obj: object) -> list[str]:
        """Return them as the page of the resource shows them."""
        return resources.list_cluster_warnings(obj)  # type: ignore[arg-type]

    @staticmethod
    def resolve_foreign_gpus(obj: object) -> dict[str, int]:
        """Return what was seen with the last poll of its nodes."""
        foreign = obj.facts.get("foreign", {})  # type: ignore[attr-defined]
        return {name: use["gpus"] for name, use in foreign.items() if use["gpus"]}

    @staticmethod
    def resolve_storage_probe(obj: object) -> object:
        """Return what was noted when the resource was attached."""
        return obj.facts.get("storage_probe")  # type: ignore[attr-defined]

    @staticmethod
    def resolve_host(obj: object) -> str:
        """Return what people call the host."""
        return hosts.name_of(obj.host)  # type: ignore[attr-defined]

    @staticmethod
    def resolve_templates(obj: object) -> list[object]:
        """Return the templates, smallest first."""
        templates = obj.templates.all()  # type: ignore[attr-defined]
        return sorted(templates, key=lambda template: (template.gpu_milli, template.cpu_millicores, template.pk))


class ResourceEventOut(Schema):
    """Something that happened to a resource; `source` is `platform`, `scheduler` or `cluster`."""

    at: datetime
    source: str
    text: str
    is_warning: bool = Field(description="Whether something is wrong.")
    by: str = Field(description="Who did it, for site admins; empty: the platform itself.")
    job: str = Field(description="The job that it is about; empty: none that you may see.")


class EventsOut(Schema):
    """What happened to a resource, the newest first."""

    items: list[ResourceEventOut]
    next_cursor: str | None = None


class SimulatedNodeIn(BodySchema):
    """A node that a simulated resource is declared to have."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")
    cpu_millicores: bounds.Quantity = Field(gt=0)
    memory_bytes: bounds.Quantity = Field(gt=0)
    gpus: int = Field(0, ge=0, le=64)
    gpu_model: str = Field("Simulated GPU", max_length=100)
    gpu_memory_bytes: bounds.Quantity = Field(32 * 2**30, gt=0)
    mig_strategy: Literal["off", "dynamic"] = Field("off", description="`dynamic`: GPUs are cut as jobs ask.")
    labels: Labels = {}


class ResourceIn(BodySchema):
    """A resource to attach. `kind` is `local`, `simulated`, `kubernetes` or `ssh`.

    `nodes` is for simulated ones; `settings` for clusters and hosts, by the names that the page has: `kubeconfig`,
    `context`, `namespace`, `agent_image`, or `address`, `private_key`, `known_host`, and others. `host` is for local
    ones: the name or id of the host whose machine it is, where there are several.
    """

    name: bounds.Name
    kind: bounds.Name
    nodes: list[SimulatedNodeIn] = Field([], max_length=10_000)
    settings: Annotated[dict[bounds.Name, bounds.FileText], Field(max_length=100)] = Field(
        {}, description="What the form of the kind asks for, by the names of its fields. Secrets are never shown again."
    )
    sites: list[bounds.Name] = Field([], max_length=100)
    host: bounds.Name = ""


class ResourceChangeIn(BodySchema):
    """What to change of a resource; what is left out stays."""

    settings: Annotated[dict[bounds.Name, bounds.FileText], Field(max_length=100)] = Field(
        {},
        description=(
            "Settings that can be changed, by the names of the form's fields, such as `agent_image` of a cluster. "
            "They count for jobs that start from then on."
        ),
    )
    sites: list[bounds.Name] = Field(
        [], max_length=100, description="The cache sites that its jobs read, the nearest first."
    )
    credentials: Annotated[dict[bounds.Name, bounds.FileText], Field(max_length=100)] = Field(
        {}, description="All that the form of its kind keeps secret, by the names of its fields. Never shown again."
    )
    is_drained: bool = Field(default=False, description="Whether the nodes that it has now take nothing new.")


class TemplateIn(BodySchema):
    """A template to add."""

    resource: bounds.Name
    name: bounds.Name
    cpu_millicores: bounds.Quantity
    memory_bytes: bounds.Quantity
    gpu_milli: bounds.Quantity = 0
    labels: Labels = {}
    pod: PodOptions = PodOptions()
    pool: bounds.Name = Field("", description="The pool of its jobs, where labels divide its resource; empty: any.")
    price_per_hour: bounds.Price | None = None


class TemplateChangeIn(BodySchema):
    """What to change of a template; what is left out stays."""

    cpu_millicores: bounds.Quantity = 0
    memory_bytes: bounds.Quantity = 0
    gpu_milli: bounds.Quantity = 0
    labels: Labels = {}
    pod: PodOptions = PodOptions()
    pool: bounds.Name = Field("", description="The pool of its jobs, where labels divide its resource; empty: any.")
    price_per_hour: bounds.Price | None = None


class IdleStateOut(Schema):
    """How a running job stands with its idle limit, its own or that of its project, whichever is shorter."""

    state: Idleness = Field(description="Whether it is used; `unknown`: nobody can measure that, so it is not stopped.")
    limit_s: float = Field(description="How long it may be idle, in seconds.")
    used_at: datetime = Field(description="When it was last known to be used.")
    stops_at: datetime | None = Field(description="When it is stopped unless it is used; null: nobody can say.")
    is_warned: bool = Field(description="Whether its end is near, so that its owners were warned.")
    text: str


class LauncherOut(Schema):
    """The launcher of a gang, and what its replicas run meanwhile."""

    cpu_millicores: int
    memory_bytes: int
    worker_command: str = Field(description="What a shell of each replica runs meanwhile.")
    worker_port: int = Field(description="It begins once each replica listens there; 0: once their names are known.")


class JobOut(Schema):
    """A job; `label` is what people call it. While it waits, `reason` says for what."""

    id: str
    name: str
    label: str
    project: str
    kind: str
    state: str
    is_unknown: bool
    reason_code: str
    reason: str
    why: str = Field(
        description="Why it is as it is, in one sentence: of a waiting job who holds what it needs, and until when, as "
        "far as that is known; else its `reason`."
    )
    resource: str
    template: str
    is_simulated: bool
    cpu_millicores: int
    memory_bytes: int
    gpu_milli: int
    gpu_cap: str = Field(
        description="`uncapped`: it has a part of a GPU, and nothing keeps it to that; empty: whole ones, or slices."
    )
    node: str
    gpus: list[list[int]]
    replica_count: int
    nodes: list[str] = Field(description="The nodes of its replicas, each once, that of replica 0 first.")
    completions: int = Field(description="How many parts are to succeed; 1: it runs as one.")
    parallelism: int = Field(description="So many of its parts run at once at most.")
    parts_done: int = Field(description="So many of its parts have succeeded.")
    parts_running: int = Field(description="So many of its parts hold resources.")
    part_index: int | None = Field(description="Its index, of a part of another job; null: it is none.")
    min_replicas: int = Field(description="With so many of its replicas it runs too; 0: with all of them, or none.")
    gpu_memory_bytes: int = Field(description="The share of a GPU that it asks for by memory; 0: it asks otherwise.")
    gpu_limit_milli: int = Field(description="How much of its GPU it may use while nobody else does; 0: its share.")
    mig_profile: str = Field(description="The slice of a GPU that it asks for; empty: it asks otherwise.")
    slices: list[str] = Field(description="The slices of GPUs that it holds.")
    node_labels: list[str] = Field(description="Its nodes have one of them; empty: any node.")
    required_level: str = Field(description="All replicas run on nodes with one value of this label.")
    preferred_level: str = Field(description="The same where it is possible.")
    launcher: LauncherOut | None = Field(
        description="One more pod, without GPUs, that runs the command, as replica 0; null: it has none."
    )
    command: str
    image: str | None
    code: str = Field(description="The hash of the code that came with it; empty: none did.")
    env: dict[str, str] = Field(description="Its own variables.")
    secrets: list[str] = Field(description="The secrets of the project that it gets as variables.")
    ports: list[int] = Field(description="On which its programs listen. Simulated nodes open none.")
    port_urls: dict[int, str] = Field(
        description="Where a browser opens its ports, below the platform's address: those that the reader may open."
    )
    volumes: list[str] = Field(description="What it mounts, as NAME:/path; simulated nodes mount none.")
    pools: list[str] = Field(description="Where a place is found for it, the best first; empty: it named its place.")
    timeout_s: float | None = Field(description="How long a run of it may take, in seconds; null: no limit.")
    idle_limit_s: float | None = Field(
        description="How long it may be idle by its own submission, in seconds; null: as long as its project rules."
    )
    idle: IdleStateOut | None = Field(description="How it stands with its idle limit; null: none holds for it now.")
    priority: int
    is_preemptible: bool
    evictions: int
    exit_code: int | None
    submitted_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    times: Times | None


class JobEventOut(Schema):
    """One thing that happened to a job."""

    seq: int
    state: str
    message: str
    at: datetime


class ReplicaOut(Schema):
    """One replica of a gang, once it is placed: where it is, and how it stands as far as its resource has said."""

    node: str
    gpus: list[list[int]]
    slices: list[str] = Field([], description="The slices of GPUs that it holds.")
    state: str = ""
    reason: str = ""


class JobPartOut(Schema):
    """One try of a part of a job: a job of its own."""

    part_index: int = Field(description="Which part it is, from 0.")
    name: str
    state: str
    reason: str
    resource: str
    node: str = Field(description="Where it runs or ran; empty: nowhere yet.")
    evictions: int
    started_at: datetime | None
    finished_at: datetime | None


class SeenGpuOut(Schema):
    """A GPU, or a slice of one, that a job sees."""

    uuid: str = Field(description="Empty: not known.")
    memory_bytes: int | None = Field(description="Null: not known.")


class VisibleGpusOut(Schema):
    """What the processes of one replica could see of GPUs when they started."""

    gpus: list[SeenGpuOut] = Field(description="Those that CUDA shows them.")
    openable: int | None = Field(
        description="Of how many GPUs of the node they can open the device files; null: not known."
    )
    variable: str | None = Field(
        description="Their CUDA_VISIBLE_DEVICES, cut after 500 characters; null: they have none."
    )


class GpuCheckOut(Schema):
    """What a job could see of GPUs when its present run started, compared with what it was given."""

    text: str = Field(description="Both in one sentence.")
    differs: bool = Field(description="Whether it sees other GPUs than it was given, or more, or fewer.")
    replicas: list[VisibleGpusOut | None] = Field(description="By rank; null: not known.")


class CheckpointOut(Schema):
    """The last checkpoint that a job told of, and what its last interruption cost."""

    step: int | None = Field(description="The step of its last checkpoint; null: it told of none.")
    saved_at: datetime | None = Field(description="When that was made; null: it told of none.")
    resumed_step: int | None = Field(description="From which it went on, or will; null: from its beginning, or none.")
    lost_s: float | None = Field(description="Seconds of work that are done again; null: it was never interrupted.")
    text: str = Field(description="All of it in words.")


class JobDetailOut(JobOut):
    """A job with its events, oldest first, and why it failed; while it waits, what would let it start, and when.

    `data_wait`: what of its datasets still moves, while it waits for them. `outlook`: why it waits, when it starts, and
    where else it would be done, in one sentence and in figures.
    `replicas`: those of a gang, by rank. `parts`: all tries of its parts, by index, the last one first; of a part,
    `part_of` is the name of the job that it belongs to. `checkpoint`: what is known of its checkpoints; null where it
    keeps none.
    """

    pool: str = Field(description="In which pool it is.")
    advice: str
    outlook: Outlook | None
    wait: Wait | None
    data_wait: DataWait | None
    closed_places: str = Field(
        description="Which places of its pools do not count now while it waits elsewhere, and why; empty: all count."
    )
    last_lines: str
    replicas: list[ReplicaOut]
    parts: list[JobPartOut] = Field(description="The parts that it runs as, which have jobs of their own.")
    part_of: str = Field(description="The job of which it is a part; empty: of none.")
    jupyter_token: str = Field(
        description="The token of its Jupyter, for those who may run commands in it; empty: it has none for the reader."
    )
    checkpoint: CheckpointOut | None = Field(description="What is known of its checkpoints; null: it keeps none.")
    gpu_check: GpuCheckOut | None = Field(description="What it sees of GPUs; null: it has none, or that is not known.")
    events: list[JobEventOut]


class ResourceLossOut(Schema):
    """What ends with a resource that is given up."""

    resource: str = Field(description="Its name.")
    effects: list[str] = Field(description="What becomes of its jobs, templates and cache sites, in sentences.")

    @staticmethod
    def resolve_resource(loss: object) -> str:
        """Return its name."""
        return str(loss.resource)  # type: ignore[attr-defined]


class TrialOut(Schema):
    """What would become of a job if it was submitted now. `starts_now`: nothing ends or is stopped before."""

    starts_now: bool
    is_simulated: bool = Field(description="Whether it would be placed where no command runs.")
    outlook: Outlook


class TriedChangeOut(Schema):
    """A change that was tried for a waiting job: when it would start then, and whom it would stop."""

    kind: str = Field(description="limit, quota, less, place, priority or preemptible")
    text: str = Field(description="The change in words.")
    helps: bool = Field(description="Whether the job starts sooner.")
    needs_admin: bool = Field(description="A site admin makes it; all others are made by submitting the job anew.")
    starts_at: datetime | None = Field(description="When it has started in half of all cases; null: not known.")
    late_at: datetime | None = Field(description="When it has started in nine of ten cases; null: not known.")
    nodes: list[str]
    stops: list[StoppedJob]
    stops_text: str = Field(description="Whom it stops, in words; empty: nobody.")


class TriedChangesOut(Schema):
    """What was tried for a job, what helps first; empty where it does not wait. Nothing is changed.

    `is_complete`: nothing was left out to bound the time that it takes.
    """

    made_at: datetime
    changes: list[TriedChangeOut]
    is_complete: bool


class JobLogOut(Schema):
    """Part of a log. Ask again from `next_offset` (in bytes) until it is complete."""

    text: str
    next_offset: int
    is_complete: bool
    is_stored: bool


class OutputOut(Schema):
    """What a job left, as a tree of its project. `left_out` says what of it is not stored, and why."""

    job: str
    project: str
    tree: str
    root: str
    files: int
    size_bytes: int
    left_out: str


class JobUsageOut(Schema):
    """What a job used around one moment."""

    at: datetime
    cpu_millicores: int | None
    memory_bytes: int | None
    gpu_percent: int | None
    gpu_memory_used_bytes: int | None


class IdleGpusOut(Schema):
    """The GPUs of a running job that were not used, and who holds them."""

    job: str
    label: str
    project: str
    submitted_by: str
    resource: str
    node: str
    gpu_milli: int
    gpu_percent: int | None
    text: str


class LauncherIn(BodySchema):
    """A pod of a gang that has no GPUs, runs the job's command, and starts processes in the replicas: for MPI."""

    cpu_millicores: bounds.Quantity = Field(500, description="Its cores, in thousandths.")
    memory_bytes: bounds.Quantity = Field(2**30, description="Its memory.")
    worker_command: bounds.Text = Field(
        "exec /usr/sbin/sshd -D", description="What a shell of each replica runs meanwhile."
    )
    worker_port: int = Field(
        22, ge=0, le=65535, description="It begins once each replica listens there; 0: once their names are known."
    )


class PlacingIn(BodySchema):
    """What a job asks of GPUs and nodes besides its size."""

    gpu_memory_bytes: bounds.Quantity = Field(
        0, description="A share of one GPU by memory, in place of GPUs by number; at least 100 MB."
    )
    gpu_limit_milli: int = Field(
        0,
        ge=0,
        le=1000,
        description="How much of its GPU it may use while nobody else does, in thousandths; 0: its share.",
    )
    mig_profile: bounds.Name = Field("", description="A slice of one GPU (MIG), as `2g.10gb`, in place of GPUs.")
    node_labels: list[bounds.Name] = Field(
        [], max_length=20, description="`key=value`: its nodes have one of them; empty: any node."
    )
    required_level: bounds.Name = Field(
        "", description="A label of nodes, such as that of a rack: all replicas run on nodes with one value of it."
    )
    preferred_level: bounds.Name = Field("", description="The same where it is possible.")
    min_replicas: int = Field(
        0,
        ge=0,
        le=bounds.MAX_REPLICAS,
        description="It starts with so many of its replicas, and grows while others need nothing; 0: with all of them.",
    )
    launcher: LauncherIn | None = Field(
        None, description="One more pod, without GPUs, that runs the command; null: each replica runs it."
    )


class JobIn(PlacingIn):
    """A job to submit. `data` names commits, which it reads on a cache site of its resource.

    One that is not ready there is requested, and the job waits for it with the place in line that it has now.
    """

    project: bounds.Name
    template: bounds.Name = Field("", description="Its size, and the resource; or name a size below.")
    command: bounds.Text = Field("", description="Empty: its image runs what it is made for.")
    name: bounds.Name = ""
    image: bounds.Name = ""
    resource: bounds.Name = Field("", description="Where it runs, without a template.")
    pool: bounds.Name = Field(
        "",
        description="In which pool a place is found for it; empty: in those that its project prefers. With a template "
        "or a resource: in which pool of that, where labels divide it among several.",
    )
    pools: list[bounds.Name] = Field(
        [],
        max_length=20,
        description="Instead of one pool: several, the best first. While it waits it moves to the first of them where "
        "it can start now; one that has run, or reads datasets, stays where it is.",
    )
    gpu_milli: bounds.Quantity | None = Field(None, description="500 is half a GPU, 2000 are two of one node.")
    cpu_millicores: bounds.Quantity | None = Field(None, description="null: what belongs to its GPUs on a node.")
    memory_bytes: bounds.Quantity | None = Field(None, description="null: what belongs to its GPUs on a node.")
    env: Annotated[dict[bounds.Name, bounds.Text], Field(max_length=100)] = Field({}, description="Its variables.")
    secrets: list[bounds.Name] = Field(
        [], max_length=100, description="Secrets of the project that it gets as variables of the same names."
    )
    ports: list[bounds.Port] = Field(
        [], max_length=bounds.MAX_PORTS, description="On which its programs listen, for those who are to reach them."
    )
    jupyter: bool = Field(
        default=False,
        description="Whether it runs a Jupyter, on its first port; without a command by the usual one.",
    )
    volumes: list[bounds.Line] = Field(
        [],
        max_length=bounds.MAX_VOLUMES,
        description="As NAME:/path, or NAME:/path:ro: on a cluster NAME is a claim of its namespace, on a host a "
        "folder, of those that an admin offers there. Simulated nodes take any, and mount none.",
    )
    data: list[bounds.Name] = Field([], max_length=100)
    code: str = Field(
        "",
        pattern=r"^([0-9a-f]{64})?$",
        description="The hash of code that was uploaded by /code/uploads and /code/trees; it is copied into the job's "
        "working directory.",
    )
    start_early: bool = Field(
        default=False,
        description="Start once the first files of its data are there; `nearline.open_data` reads the others too.",
    )
    replicas: int = Field(
        1,
        ge=1,
        le=bounds.MAX_REPLICAS,
        description="How often the command runs at once, as a gang; each has the template's size.",
    )
    completions: int = Field(
        1,
        ge=1,
        le=bounds.MAX_COMPLETIONS,
        description="More than one: it runs as so many parts, each with its own `$NEARLINE_INDEX`, until all have "
        "succeeded.",
    )
    parallelism: int = Field(
        1, ge=1, le=bounds.MAX_COMPLETIONS, description="So many of its parts run at once at most."
    )
    retries: int | None = Field(
        None,
        ge=0,
        le=bounds.MAX_COMPLETIONS,
        description="How often what fails runs again, in all; null: 6 times with completions, else never.",
    )
    timeout_s: bounds.Seconds | None = Field(
        None, description="How long a run of it may take, in seconds; null: as long as it likes."
    )
    idle_limit_s: bounds.Seconds | None = Field(
        None,
        description="How long it may be idle, in seconds, from 60; null: as its project rules. The shorter one holds.",
    )
    grace_period_s: bounds.Seconds = Field(
        DEFAULT_GRACE_PERIOD_S,
        description="How long it may go on after SIGTERM, when it is preempted, suspended, stopped or out of time.",
    )
    checkpoints: bool = Field(
        default=False,
        description="Whether it has a folder, `$NEARLINE_CHECKPOINT_DIR`, that outlives its runs until it succeeds.",
    )
    simulated_duration_s: bounds.Seconds = Field(60.0, description="On nodes that do not exist: how long it takes.")
    is_preemptible: bool = Field(
        default=True,
        description="It can be evicted to free resources for others that have a right to them. "
        "It is then requeued and starts anew. What is "
        "not preemptible starts only within the project's quota.",
    )
    priority: Priority = Field(
        priorities.DEFAULT,
        description="Of a project's jobs the higher go first, and may take the place of lower preemptible ones.",
    )


class CommandIn(BodySchema):
    """A command to run in a job."""

    command: list[bounds.Text] = Field(
        min_length=1, max_length=1000, description="The program and its arguments; no shell reads them."
    )
    stdin: Base64Bytes = Field(b"", max_length=bounds.MAX_FILE, description="What the command reads, as Base64.")
    replica: int = Field(0, ge=0, le=bounds.MAX_REPLICAS - 1, description="Which replica of a gang, by rank.")


class PortIn(BodySchema):
    """A TCP port of a job."""

    port: bounds.Port = Field(description="On which a program of the job listens.")
    replica: int = Field(0, ge=0, le=bounds.MAX_REPLICAS - 1, description="Which replica of a gang, by rank.")


class TerminalIn(BodySchema):
    """A command to run in a terminal in a job."""

    command: list[bounds.Text] = Field(
        min_length=1, max_length=1000, description="The program and its arguments; no shell reads them."
    )
    columns: int = Field(80, ge=1, le=MOST_CELLS, description="How wide the terminal is.")
    rows: int = Field(24, ge=1, le=MOST_CELLS, description="How high it is.")
    kind: str = Field("xterm", pattern=r"^[A-Za-z0-9._+-]{1,100}$", description="What `$TERM` is; clusters choose it.")
    replica: int = Field(0, ge=0, le=bounds.MAX_REPLICAS - 1, description="In which replica of a gang, by rank.")


class TicketOut(Schema):
    """What opens connections to a job. It can be used several times, until it expires or its owner may not any more."""

    ticket: str = Field(alias="text", description="The bearer token of the WebSocket's handshake. It is a secret.")
    url: str = Field(description="Where the WebSocket is, below the platform's address.")
    expires_in_s: int = Field(description="How long connections can be opened with it.")


class RerunIn(BodySchema):
    """How the new job is called; empty: it gets a name."""

    name: bounds.Name = ""


class CancelIn(BodySchema):
    """Why a job is cancelled, for those who read its history."""

    reason: bounds.Line = ""


class PageOut(Schema):
    """What all lists share."""

    next_cursor: str | None = None


class ResourcePageOut(PageOut):
    """Resources by name."""

    items: list[ResourceOut]


class TemplatePageOut(PageOut):
    """Templates by resource, smallest first."""

    items: list[TemplateOut]


class JobFilters(Schema):
    """Which jobs are listed. `cause` is a reason code, such as `out_of_memory`, of jobs that ended without success."""

    project: str | None = None
    state: str | None = None
    cause: str | None = None


class JobPageOut(PageOut):
    """Jobs, newest first."""

    items: list[JobOut]


class IdleGpusPageOut(PageOut):
    """Idle GPUs, the most first, then those whose use is not measured."""

    items: list[IdleGpusOut]


class UsagePageOut(PageOut):
    """Samples, oldest first."""

    items: list[JobUsageOut]
