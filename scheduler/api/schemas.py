"""What the scheduler's routes take and answer."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Field, Schema
from pydantic import WithJsonSchema

from core import bounds
from core.bodies import BodySchema
from scheduler.engine import sharing
from scheduler.engine.proof import BoundKind, Cause, Remedy, Resource
from scheduler.engine.sharing import MOST_STOPS, PROMPT, SharingRules
from scheduler.engine.states import WorkloadState
from scheduler.models import Node, Queue, Workload
from scheduler.selectors.evictions import EvictionView
from scheduler.selectors.forecasts import PoolCoverage
from scheduler.selectors.nodes import held_on
from scheduler.selectors.pools import DEFAULT, PoolView
from scheduler.selectors.snapshots import view_rules
from scheduler.services.queues import MOST_RANK

Stops = Annotated[int, Field(ge=0, le=MOST_STOPS)]
"""How often a job may be stopped."""
NodeLabels = Annotated[list[bounds.Name], Field(max_length=50)]


class QueueOut(Schema):
    """The queue of a project in a pool: what is guaranteed to it, and what it holds now."""

    pool: str
    project: str
    gpu_quota_milli: int
    cpu_quota_millicores: int | None
    memory_quota_bytes: int | None
    over_quota_weight: float | None
    gpu_limit_milli: int | None
    cpu_limit_millicores: int | None
    memory_limit_bytes: int | None
    department: str | None
    training_node_labels: list[str]
    interactive_node_labels: list[str]
    training_run_at_most_s: float | None
    interactive_run_at_most_s: float | None
    training_idle_at_most_s: float | None
    interactive_idle_at_most_s: float | None
    claim_delay_s: float | None
    reclaim_min_runtime_s: float | None
    surplus_min_runtime_s: float | None
    evictions_at_most: int | None
    surplus_evictions_at_most: int | None
    preempt_min_runtime_s: float | None
    pool_rank: int | None
    gpu_held_milli: int
    used_gpu_s: float
    cpu_held_millicores: int
    memory_held_bytes: int
    placed_workloads: int
    waiting_workloads: int

    @staticmethod
    def resolve_pool(queue: Queue) -> str:
        """Return the pool's name."""
        return queue.pool.name

    @staticmethod
    def resolve_project(queue: Queue) -> str:
        """Return the project's name."""
        return queue.label

    @staticmethod
    def resolve_department(queue: Queue) -> str | None:
        """Return the name of the department above."""
        return queue.parent.name if queue.parent is not None else None


class DepartmentOut(Schema):
    """A department of a pool: what is guaranteed to the projects below it together, its limits and its rules."""

    pool: str
    name: str
    gpu_quota_milli: int
    cpu_quota_millicores: int | None
    memory_quota_bytes: int | None
    over_quota_weight: float | None
    gpu_limit_milli: int | None
    cpu_limit_millicores: int | None
    memory_limit_bytes: int | None
    department: str | None
    training_node_labels: list[str]
    interactive_node_labels: list[str]
    training_run_at_most_s: float | None
    interactive_run_at_most_s: float | None
    training_idle_at_most_s: float | None
    interactive_idle_at_most_s: float | None
    claim_delay_s: float | None
    reclaim_min_runtime_s: float | None
    surplus_min_runtime_s: float | None
    evictions_at_most: int | None
    surplus_evictions_at_most: int | None
    preempt_min_runtime_s: float | None

    @staticmethod
    def resolve_pool(queue: Queue) -> str:
        """Return the pool's name."""
        return queue.pool.name

    @staticmethod
    def resolve_department(queue: Queue) -> str | None:
        """Return the name of the department above."""
        return queue.parent.name if queue.parent is not None else None


class DepartmentsOut(Schema):
    """The departments of a pool by name."""

    items: list[DepartmentOut]
    next_cursor: str | None = None


class SharingOut(Schema):
    """By which rules the queues of a pool share. `preset` names the set that they are; empty: they are their own."""

    preset: str
    claim_delay_s: float
    reclaim_min_runtime_s: float
    surplus_min_runtime_s: float
    evictions_at_most: int
    surplus_evictions_at_most: int
    consolidate_every_s: float
    usage_half_life_s: float
    usage_pull: float

    @staticmethod
    def of(rules: SharingRules) -> "SharingOut":
        """Return the answer for some rules."""
        return SharingOut(preset=sharing.name_of(rules), **asdict(rules))


class PoolLabelOut(Schema):
    """A label by which nodes of a resource are in a pool."""

    resource: str
    label: str
    nodes: int = Field(description="How many nodes count by it now.")


class PoolOut(Schema):
    """A pool: the resources in it, what their nodes that are ready have, and the rules by which its queues share."""

    name: str
    resources: list[str]
    labels: list[PoolLabelOut] = Field(
        description="By which labels it has nodes of resources that are divided among pools; else it has those that no "
        "label puts into another pool."
    )
    nodes: int
    gpu_milli: int
    has_simulated: bool
    sharing: SharingOut

    @staticmethod
    def of(view: PoolView) -> "PoolOut":
        """Return the answer for a pool."""
        return PoolOut(
            name=view.pool.name,
            resources=list(view.resources),
            labels=[PoolLabelOut(**asdict(each)) for each in view.labels],
            nodes=view.nodes,
            gpu_milli=view.gpu_milli,
            has_simulated=view.has_simulated,
            sharing=SharingOut.of(view_rules(view.pool)),
        )


class PoolsOut(Schema):
    """The pools, the default one first."""

    items: list[PoolOut]
    next_cursor: str | None = None


class PoolChangeIn(BodySchema):
    """Resources to move into the pool, with their work if `moves_work` says so: all of their nodes, or with a label.

    Without a label those nodes move that no label puts into another pool.
    """

    resources: list[bounds.Name] = Field([], max_length=100)
    label: bounds.Name = Field("", description="Only their nodes with this label, as `gpu=a100`. None may have it yet.")
    moves_work: bool = False


class LabelRemovalIn(BodySchema):
    """A label of resources to take out of the pool, with the work on its nodes if `moves_work` says so."""

    resources: list[bounds.Name] = Field(min_length=1, max_length=100)
    label: bounds.Name
    moves_work: bool = False


class PoolIn(PoolChangeIn):
    """A pool to create, and the resources to move into it."""

    name: bounds.Name


class SharingIn(BodySchema):
    """Rules to change; what is left out stays. With a `preset`, the others are those of that named set."""

    preset: Literal["", "prompt", "steady"] = ""
    claim_delay_s: bounds.Seconds = PROMPT.claim_delay_s
    reclaim_min_runtime_s: bounds.Seconds = PROMPT.reclaim_min_runtime_s
    surplus_min_runtime_s: bounds.Seconds = PROMPT.surplus_min_runtime_s
    evictions_at_most: Stops = PROMPT.evictions_at_most
    surplus_evictions_at_most: Stops = PROMPT.surplus_evictions_at_most
    consolidate_every_s: bounds.Seconds = PROMPT.consolidate_every_s
    usage_half_life_s: Annotated[float, Field(ge=sharing.LEAST_HALF_LIFE_S, le=bounds.MAX_SECONDS)] = (
        PROMPT.usage_half_life_s
    )
    usage_pull: Annotated[float, Field(ge=0, le=sharing.MOST_PULL)] = PROMPT.usage_pull


class QueuesOut(Schema):
    """A page of queues."""

    items: list[QueueOut]
    next_cursor: str | None


class LoanOut(Schema):
    """GPUs that one project holds of the quota of another. Without a lender no quota covers them.

    Projects of which you are no member are named "other projects".
    """

    lender: str | None = Field(description="Of whose quota they are; null: no quota covers them.")
    borrower: str = Field(description="Who holds them.")
    gpu_milli: int
    text: str


class BelowShareOut(Schema):
    """A project that holds less than its fair share while it waits; starved: for 15 minutes, as others borrow."""

    project: str
    gpu_held_milli: int
    gpu_fair_milli: int = Field(description="Its fair share, in thousandths of GPUs.")
    enqueued_at: datetime
    is_starved: bool = Field(description="Whether it waits within its quota for 15 minutes, as others borrow.")
    text: str


class SmallQuotaOut(Schema):
    """A project whose quota does not cover its largest job, or any template of the pool.

    For site admins also a department whose quota does not cover those of its projects.
    """

    project: str = Field(description="The project, or the department.")
    gpu_quota_milli: int
    gpu_needed_milli: int = Field(description="What the job, or the template, takes: thousandths of GPUs.")
    needed_by: str = Field(description="Which job or template, in words; of a department what is below it.")
    text: str


class StandingOut(Schema):
    """How the projects of a pool stand to each other now, and which quotas are too small for a job."""

    pool: str
    loans: list[LoanOut] = Field(description="Who uses whose quota.")
    below: list[BelowShareOut] = Field(description="Which of your projects wait below their share.")
    small_quotas: list[SmallQuotaOut] = Field(description="Which quotas of your projects are too small for a job.")


class QuotaIn(BodySchema):
    """What to guarantee, the limits and the rules; what is left out stays.

    Null: CPU and memory without bound; a weight as the GPU quota; no limit; as the department rules; no department.
    Training work is what is preemptible, interactive work what is not.
    A node must bear one of the labels (`key=value`).
    """

    gpu_quota_milli: bounds.Quantity = 0
    cpu_quota_millicores: bounds.Quantity | None = None
    memory_quota_bytes: bounds.Quantity | None = None
    over_quota_weight: Annotated[float, Field(ge=0, le=10**9)] | None = None
    gpu_limit_milli: bounds.Quantity | None = None
    cpu_limit_millicores: bounds.Quantity | None = None
    memory_limit_bytes: bounds.Quantity | None = None
    department: bounds.Name | None = None
    training_node_labels: NodeLabels = []
    interactive_node_labels: NodeLabels = []
    training_run_at_most_s: bounds.Seconds | None = None
    interactive_run_at_most_s: bounds.Seconds | None = None
    training_idle_at_most_s: bounds.Seconds | None = None
    interactive_idle_at_most_s: bounds.Seconds | None = None
    claim_delay_s: bounds.Seconds | None = None
    reclaim_min_runtime_s: bounds.Seconds | None = None
    surplus_min_runtime_s: bounds.Seconds | None = None
    evictions_at_most: Stops | None = None
    surplus_evictions_at_most: Stops | None = None
    preempt_min_runtime_s: bounds.Seconds | None = None
    pool_rank: Annotated[int, WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MOST_RANK})] | None = None


class DepartmentIn(QuotaIn):
    """A department to create in a pool."""

    pool: bounds.Name = DEFAULT
    name: bounds.Name


class QueueChangeIn(QuotaIn):
    """A change of one queue: of a project, or of a department."""

    queue: bounds.Name
    is_department: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """What it says of the queue."""
        return self.model_dump(exclude_unset=True, exclude={"queue", "is_department"})


class QueueChangesIn(BodySchema):
    """Changes of several queues of a pool."""

    pool: bounds.Name = DEFAULT
    changes: list[QueueChangeIn] = Field(max_length=1000)


class QuotaTrialIn(QueueChangesIn):
    """Changes of several queues of a pool, and of its rules."""

    changes: list[QueueChangeIn] = Field([], max_length=1000)
    sharing: SharingIn = SharingIn()


class ChangedQueueOut(Schema):
    """A queue that was changed: the name of its project or department, and its GPU quota."""

    queue: str
    gpu_quota_milli: int

    @staticmethod
    def resolve_queue(queue: Queue) -> str:
        """Return the name of the project or the department."""
        return queue.label


class ChangedQueuesOut(Schema):
    """The queues that were changed, in the order of the changes."""

    items: list[ChangedQueueOut]
    next_cursor: str | None = None


class QueueTrialOut(Schema):
    """One queue before and after a change."""

    name: str
    is_department: bool
    quota_before_milli: int
    quota_after_milli: int
    fair_before_milli: int
    fair_after_milli: int
    held_milli: int
    gain_milli: int


class JobTrialOut(Schema):
    """A job that the next cycle would start, or stop. `is_anyway`: so it would without the change."""

    name: str
    queue: str
    gpu_milli: int
    reason: str
    is_anyway: bool
    is_after_stops: bool = Field(description="Whether it starts once what is stopped for it has ended.")


class QuotaTrialOut(Schema):
    """What a change would do, and what the next cycle would stop, in its order, and start."""

    pool: str
    gpu_milli: int
    quota_before_milli: int
    quota_after_milli: int
    sum_text: str
    queues: list[QueueTrialOut]
    stops: list[JobTrialOut]
    starts: list[JobTrialOut]


class GpuOut(Schema):
    """One device of a node."""

    index: int
    uuid: str
    model: str
    memory_bytes: int
    held_milli: int


class NodeOut(Schema):
    """A node, what it has, and how much of that is held."""

    id: str
    name: str
    resource: str
    is_ready: bool
    is_drained: bool
    is_simulated: bool
    pool: str = Field(description="The pool that it is in.")
    labels: dict[str, str]
    cpu_millicores: int
    memory_bytes: int
    cpu_held_millicores: int
    memory_held_bytes: int
    gpus: list[GpuOut]
    mig: dict[str, int] = Field(description="Slices of GPUs that were cut beforehand: how many of each profile.")

    @staticmethod
    def of(node: Node) -> "NodeOut":
        """Return the answer for a node that `list_nodes` returned."""
        held = held_on(node)
        devices = sorted(node.gpus.all(), key=lambda gpu: gpu.index)
        return NodeOut(
            id=node.pk,
            name=node.name,
            resource=node.resource_name,
            is_ready=node.is_ready,
            is_drained=node.is_drained,
            is_simulated=node.is_simulated,
            pool=node.pool.name,
            labels=node.labels,
            cpu_millicores=node.cpu_millicores,
            memory_bytes=node.memory_bytes,
            cpu_held_millicores=held.cpu_millicores,
            memory_held_bytes=held.memory_bytes,
            mig=node.mig,
            gpus=[
                GpuOut(
                    index=gpu.index,
                    uuid=gpu.uuid,
                    model=gpu.model,
                    memory_bytes=gpu.memory_bytes,
                    held_milli=held.gpu_milli.get(gpu.index, 0),
                )
                for gpu in devices
            ],
        )


class NodeChangeIn(BodySchema):
    """What an admin may say about a node: a drained one takes nothing new."""

    is_drained: bool


class CoverageOut(Schema):
    """How well the newest forecasts of starts held, by pool. Of P50 one half should hold, of P90 nine tenths."""

    items: list[PoolCoverage]
    next_cursor: str | None = None


class EvictionFilters(Schema):
    """Which evictions are listed: those of a job, of a project or in a pool, at `since` or later and before `until`."""

    job: bounds.Name | None = None
    project: bounds.Name | None = None
    pool: bounds.Name | None = None
    since: bounds.Moment | None = None
    until: bounds.Moment | None = None


class QueueShareOut(Schema):
    """What a queue held of GPUs before and after a cycle, against quota (null: no bound) and fair share.

    In thousandths.
    """

    quota: int | None
    fair: float
    before: float
    after: float


class AlternativeOut(Schema):
    """A job that could have been evicted instead: what it would have freed and lost, and why it was not.

    The names are those of strangers where you are no member of its project; `job` is empty then.
    """

    job: str
    label: str
    project: str
    gpu_milli: int
    lost_gpu_s: float
    why: str
    why_text: str


class EvictionOut(Schema):
    """The receipt of an eviction: for whom and by which rule, what both queues held, and what it cost.

    `lost_gpu_s` are the seconds since `saved_at` (its last checkpoint, else its start), times its GPUs. Without a
    claimant the job was over or stale. `cycle` is what `manage.py replay_cycle` takes, as long as the dump is kept.
    """

    id: str
    evicted_at: datetime
    job: str
    label: str
    project: str
    pool: str | None
    has_simulated: bool
    code: str
    rule: str
    is_moved: bool
    gpu_milli: int
    placed_at: datetime
    saved_at: datetime
    lost_gpu_s: float
    claimant: str
    claimant_label: str
    claimant_project: str
    claim_class: str
    victim_share: QueueShareOut
    claimant_share: QueueShareOut | None
    alternatives: list[AlternativeOut]
    cycle: str

    @staticmethod
    def of(view: EvictionView) -> "EvictionOut":
        """Return the answer for a receipt as the reader may see it."""
        row, claimant = view.row, view.claimant
        return EvictionOut(
            id=row.pk,
            evicted_at=row.at,
            job=view.job.name,
            label=view.job.label,
            project=view.job.project,
            pool=row.pool.name if row.pool is not None else None,
            has_simulated=view.has_simulated,
            code=row.code,
            rule=view.rule,
            is_moved=row.is_moved,
            gpu_milli=row.gpu_milli,
            placed_at=row.placed_at,
            saved_at=row.saved_at,
            lost_gpu_s=row.lost_gpu_s,
            claimant=claimant.name if claimant is not None else "",
            claimant_label=claimant.label if claimant is not None else "",
            claimant_project=claimant.project if claimant is not None else "",
            claim_class=row.claim_class,
            victim_share=QueueShareOut(**row.victim_share),
            claimant_share=QueueShareOut(**row.claimant_share) if row.claimant_share else None,
            alternatives=[
                AlternativeOut(
                    job=each.job.name,
                    label=each.job.label,
                    project=each.job.project,
                    gpu_milli=each.gpu_milli,
                    lost_gpu_s=each.lost_gpu_s,
                    why=each.why,
                    why_text=each.why_text,
                )
                for each in view.alternatives
            ],
            cycle=row.cycle,
        )


class EvictionsOut(Schema):
    """A page of receipts of evictions."""

    items: list[EvictionOut]
    next_cursor: str | None


class EvictionWeekOut(Schema):
    """The evictions of a project in the week that begins then; `moves` of them moved to another node."""

    project: str
    begins_at: datetime
    evictions: int
    moves: int
    lost_gpu_s: float


class EvictionWeeksOut(Schema):
    """Evictions by project and week, the newest week first."""

    items: list[EvictionWeekOut]
    next_cursor: str | None = None


class ConsumptionFilters(Schema):
    """What is summed up: from `since` (else a day ago) to `until`, of all your projects or of one."""

    project: bounds.Name | None = None
    since: bounds.Moment | None = None
    until: bounds.Moment | None = None


class ConsumedOut(Schema):
    """What a project consumed in a pool: seconds of one GPU, and the price of what has one."""

    project: str
    pool: str
    has_simulated: bool
    gpu_s: float
    price: float


class ConsumptionOut(Schema):
    """What projects consumed, the most first."""

    items: list[ConsumedOut]
    next_cursor: str | None = None


class NodesOut(Schema):
    """A page of nodes."""

    items: list[NodeOut]
    next_cursor: str | None


class ShortageOut(Schema):
    """One resource of which less is there than is asked for, in thousandths, millicores, bytes, MiB or pieces.

    `profile` says which MIG slices, if it is those.
    """

    resource: Resource
    asked: int
    available: int
    profile: str


class BoundOut(Schema):
    """A quota or limit of a queue that the workload would pass."""

    queue_id: str
    queue: str
    kind: BoundKind
    resource: Resource
    amount: int
    held: int
    asked: int


class NodeShortfallOut(Schema):
    """A node that does not serve the workload, with what is missing there."""

    node_id: str
    node: str
    cause: Cause
    shortages: list[ShortageOut]


class SuggestionOut(Schema):
    """One thing that would let the workload start, or bring it nearer. `where` names the queue, node, pool or job.

    `profile` says which MIG slices, if it is those.
    """

    way: Remedy
    where: str
    resource: Resource | None
    amount: int
    profile: str


class ProofOut(Schema):
    """Everything behind a "no": `nearest` are the nodes that lack least, `others` counts all further ones by cause."""

    needed: int
    placeable: int
    bounds: list[BoundOut]
    nearest: list[NodeShortfallOut]
    others: dict[Cause, int]
    unblock: list[SuggestionOut]


class WorkloadOut(Schema):
    """A workload: what it asks for, and where it is or why it waits, what would let it start, and the proof."""

    id: str
    name: str
    project: str
    state: WorkloadState
    reason: str
    reason_code: str
    advice: str
    proof: ProofOut | None
    priority: int
    is_preemptible: bool
    cpu_millicores: int
    memory_bytes: int
    gpu_milli: int
    evictions: int
    enqueued_at: datetime
    placed_at: datetime | None
    released_at: datetime | None
    node: str | None
    gpus: list[tuple[int, int]]

    @staticmethod
    def resolve_project(workload: Workload) -> str:
        """Return the project's name."""
        return workload.project.name

    @staticmethod
    def resolve_reason(workload: Workload) -> str:
        """Return why it waits, or is stopped."""
        return workload.why

    @staticmethod
    def resolve_reason_code(workload: Workload) -> str:
        """Return the name of that for programs."""
        return workload.why_code

    @staticmethod
    def resolve_advice(workload: Workload) -> str:
        """Return what would let it start; empty while nothing is known, and once it has its capacity."""
        return workload.answer.advice if workload.answer is not None else ""

    @staticmethod
    def resolve_proof(workload: Workload) -> object:
        """Return the proof that it has to wait; None while there is none."""
        return workload.answer.proof if workload.answer is not None else None

    @staticmethod
    def resolve_node(workload: Workload) -> str | None:
        """Return the name of the node that all its pods are on; None while they are on none, or on several."""
        names = {placement.node.name for placement in workload.placements.all()}
        return names.pop() if len(names) == 1 else None

    @staticmethod
    def resolve_gpus(workload: Workload) -> list[tuple[int, int]]:
        """Return the devices that its pods hold on the node, with the thousandths of each."""
        placements = workload.placements.all()
        is_one_node = len({placement.node_id for placement in placements}) == 1
        return [gpu for placement in placements for gpu in placement.gpus] if is_one_node else []


class WorkloadsOut(Schema):
    """A page of workloads."""

    items: list[WorkloadOut]
    next_cursor: str | None
