"""What the scheduler stores: pools, queues with quotas, nodes, workloads, placements and reservations of their pods."""

from datetime import datetime
from enum import StrEnum

from django.db import models

from core import clock
from core.orm import BaseModel
from scheduler.engine.calibration import LATE, LIKELY
from scheduler.engine.sharing import PROMPT
from scheduler.engine.snapshot import MigStrategy
from scheduler.engine.states import WorkloadState

FIRST_POD = "0"
"""The name of the only pod of most workloads."""

DEFAULT_POOL_ID = "pool_default"
"""The pool of every resource that is in no other one."""

LONGEST_LABEL = 381
"""The length of the longest label of a node, as `key=value`, with the prefix that a key may have."""


class Pool(BaseModel):
    """Nodes over which quotas, limits and fair shares are worked out: those of some resources, or some of their nodes.

    The levels are the parts of past forecasts that P50 and P90 of new ones are to cover, so that they hold. The rules
    by which its queues share are those of `engine.sharing.SharingRules`. Running work was last moved together at
    `consolidated_at`.
    """

    id_prefix = "pool"

    name = models.CharField(max_length=63, unique=True)
    claim_delay_s = models.FloatField(default=PROMPT.claim_delay_s)
    reclaim_min_runtime_s = models.FloatField(default=PROMPT.reclaim_min_runtime_s)
    surplus_min_runtime_s = models.FloatField(default=PROMPT.surplus_min_runtime_s)
    evictions_at_most = models.PositiveIntegerField(default=PROMPT.evictions_at_most)
    surplus_evictions_at_most = models.PositiveIntegerField(default=PROMPT.surplus_evictions_at_most)
    consolidate_every_s = models.FloatField(default=PROMPT.consolidate_every_s)
    usage_half_life_s = models.FloatField(default=PROMPT.usage_half_life_s)
    usage_pull = models.FloatField(default=PROMPT.usage_pull)
    consolidated_at = models.DateTimeField(null=True)
    likely_level = models.FloatField(default=LIKELY)
    late_level = models.FloatField(default=LATE)

    def __str__(self) -> str:
        return self.name


class PoolResource(BaseModel):
    """Nodes of a resource that are in a pool: those with a label (`key=value`), or without one those that are left.

    A node with several of the labels of its resource counts by the first of them in the order of the alphabet. A
    resource without a row is in the default pool; one with labels has a row for what is left, too.
    """

    id_prefix = "poolres"

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="resources")
    resource_id = models.CharField(max_length=32)
    label = models.CharField(max_length=LONGEST_LABEL, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["resource_id", "label"], name="one_pool_per_label")]

    def __str__(self) -> str:
        return f"{self.resource_id} {self.label} in {self.pool_id}"


class Queue(BaseModel):
    """A queue of one pool with its quota and limit: of a project, or a department (`name`) above such queues.

    A limit that is None is no limit, a weight that is None is as the GPU quota. Training work is what is preemptible,
    interactive work what is not: its nodes bear one of the labels (`key=value`), and it may run, and be idle, for so
    many seconds. Who runs jobs measures whether they are idle, and stops them.
    What work of a higher priority may evict has run for `preempt_min_runtime_s` before; the rules for other queues are
    those of `engine.sharing.SharingRules`. What is None or empty is as the department rules, or the pool. `used_gpu_s`
    is what it held lately, in seconds of one GPU: it halves over the half-life of the pool. Jobs of the project that
    name no pool take those with a `pool_rank`, 1 first.
    """

    id_prefix = "queue"

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="queues")
    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, null=True, related_name="queues")
    name = models.CharField(max_length=63, blank=True)
    parent = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, related_name="children")
    gpu_quota_milli = models.PositiveBigIntegerField(default=0)
    cpu_quota_millicores = models.PositiveBigIntegerField(null=True, default=None)
    memory_quota_bytes = models.PositiveBigIntegerField(null=True, default=None)
    over_quota_weight = models.FloatField(null=True, default=None)
    gpu_limit_milli = models.PositiveBigIntegerField(null=True, default=None)
    cpu_limit_millicores = models.PositiveBigIntegerField(null=True, default=None)
    memory_limit_bytes = models.PositiveBigIntegerField(null=True, default=None)
    training_node_labels = models.JSONField(default=list)
    interactive_node_labels = models.JSONField(default=list)
    training_run_at_most_s = models.FloatField(null=True, default=None)
    interactive_run_at_most_s = models.FloatField(null=True, default=None)
    training_idle_at_most_s = models.FloatField(null=True, default=None)
    interactive_idle_at_most_s = models.FloatField(null=True, default=None)
    claim_delay_s = models.FloatField(null=True, default=None)
    reclaim_min_runtime_s = models.FloatField(null=True, default=None)
    surplus_min_runtime_s = models.FloatField(null=True, default=None)
    evictions_at_most = models.PositiveIntegerField(null=True, default=None)
    surplus_evictions_at_most = models.PositiveIntegerField(null=True, default=None)
    used_gpu_s = models.FloatField(default=0.0)
    preempt_min_runtime_s = models.FloatField(null=True, default=None)
    pool_rank = models.PositiveSmallIntegerField(null=True, default=None)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pool", "project"], name="one_queue_per_project"),
            models.UniqueConstraint(
                fields=["pool", "name"], condition=models.Q(project=None), name="one_department_per_name"
            ),
            models.CheckConstraint(
                condition=models.Q(project=None, name__gt="") | models.Q(project__isnull=False, name=""),
                name="queue_of_project_or_department",
            ),
        ]

    def __str__(self) -> str:
        return f"queue of {self.project.name}" if self.project else self.name

    @property
    def label(self) -> str:
        """What people call it: its project, or the department. Needs the project loaded."""
        return self.name if self.project is None else self.project.name


class Node(BaseModel):
    """A machine of a compute resource, as last reported, in the pool of its label or of that resource.

    `revision` counts the changes of what is known of it.

    A drained node takes nothing new, by an admin's word, whatever is reported; what runs there goes on. `max_pods`: how
    many pods it takes at once; null: any number. `taints` are triples of key, value and effect (`core.taints.Taint`).
    """

    id_prefix = "node"

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="nodes")
    resource_id = models.CharField(max_length=32, db_index=True)
    resource_name = models.CharField(max_length=63)
    name = models.CharField(max_length=253)
    cpu_millicores = models.PositiveBigIntegerField()
    memory_bytes = models.PositiveBigIntegerField()
    is_ready = models.BooleanField(default=True)
    is_drained = models.BooleanField(default=False)
    is_simulated = models.BooleanField(default=False)
    labels = models.JSONField(default=dict)
    taints = models.JSONField(default=list)
    mig_strategy = models.CharField(
        max_length=10,
        choices=[(strategy.value, strategy.value) for strategy in MigStrategy],
        default=MigStrategy.OFF,
    )
    mig = models.JSONField(default=dict)
    max_pods = models.PositiveBigIntegerField(null=True)
    revision = models.PositiveBigIntegerField(default=1)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["resource_id", "name"], name="one_node_per_name")]

    def __str__(self) -> str:
        return self.name


class Gpu(BaseModel):
    """One device of a node."""

    id_prefix = "gpu"

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="gpus")
    index = models.PositiveIntegerField()
    uuid = models.CharField(max_length=100)
    model = models.CharField(max_length=100)
    memory_bytes = models.PositiveBigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "index"], name="one_gpu_per_index")]

    def __str__(self) -> str:
        return f"GPU {self.index} ({self.model})"


class Answer(BaseModel):
    """Why some workloads wait, what would let them start, and the proof that they cannot yet.

    It is shared by all that ask for the same, and brought up to date by every cycle. `text` is for people and `code`
    its name for programs; `proof` is the engine's, as JSON. The row exists as long as somebody waits for this.
    """

    id_prefix = "answer"

    code = models.CharField(max_length=50, blank=True)
    text = models.TextField(blank=True)
    advice = models.TextField(blank=True)
    proof = models.JSONField()

    def __str__(self) -> str:
        return self.advice


class Workload(BaseModel):
    """The scheduler's view of a job: the pods that it asks for, where they may run, and why it waits.

    `title` is what people call it; empty: as its name.
    `pod_sets` lists its kinds of pods as JSON: name, count, minimum, and the request of each pod
    (`services/workloads.py` writes them). `cpu_millicores`, `memory_bytes` and `gpu_milli` are the sums over all pods;
    of GPU memory asked for in bytes the share of a device is known once the workload is placed.
    `missing_bytes` maps resources to the bytes of its data that have yet to be brought there; None is unknown.
    `revision` counts the changes of the request. Why it waits is its `answer`. What it is told apart from others is
    `reason`, text for people, and `reason_code`, its name for programs; both are empty else.
    `price_per_hour` is what an hour of all its pods costs; 0: nobody has said.
    `evictions` counts its evictions; it was requeued after the last one at `requeued_at`.
    """

    id_prefix = "work"

    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="workloads")
    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="workloads", db_index=False)
    name = models.CharField(max_length=253, unique=True)
    title = models.CharField(max_length=300, blank=True)
    state = models.CharField(
        max_length=10,
        choices=[(state.value, state.value) for state in WorkloadState],
        default=WorkloadState.PENDING,
    )
    priority = models.IntegerField(default=50)
    is_preemptible = models.BooleanField(default=True)
    cpu_millicores = models.PositiveBigIntegerField()
    memory_bytes = models.PositiveBigIntegerField()
    gpu_milli = models.PositiveBigIntegerField(default=0)
    pod_sets = models.JSONField(default=list)
    has_many_pods = models.BooleanField(default=False)
    resource_id = models.CharField(max_length=32)
    missing_bytes = models.JSONField(null=True)
    price_per_hour = models.FloatField(default=0.0)
    revision = models.PositiveIntegerField(default=0)
    reason = models.TextField(blank=True)
    reason_code = models.CharField(max_length=50, blank=True)
    # An answer that is gone is none: without a constraint and an index, telling thousands why they wait stays cheap.
    answer = models.ForeignKey(
        Answer, null=True, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    evictions = models.PositiveIntegerField(default=0)
    enqueued_at = models.DateTimeField()
    requeued_at = models.DateTimeField(null=True)
    placed_at = models.DateTimeField(null=True)
    released_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["queue", "state"], name="workloads_of_queue"),
            models.Index(fields=["state", "resource_id"], name="workload_by_state"),
            models.Index(fields=["released_at"], name="workload_by_release"),
        ]

    def __str__(self) -> str:
        return self.title or self.name

    @property
    def why(self) -> str:
        """What it is told: why it waits, or is stopped; empty: nothing. Needs its answer at hand."""
        return self.answer.text if self.answer is not None else self.reason

    @property
    def why_code(self) -> str:
        """The name of that for programs."""
        return self.answer.code if self.answer is not None else self.reason_code

    @property
    def price_per_pod_hour(self) -> float:
        """What an hour of one of its pods costs."""
        pods: int = sum(each["count"] for each in self.pod_sets)
        return self.price_per_hour / pods

    @property
    def waits_since(self) -> datetime:
        """When its present wait, or the last one, began."""
        return self.requeued_at or self.enqueued_at


class Placement(BaseModel):
    """The capacity that one pod holds: `gpus` lists pairs of device index and thousandths of that device.

    `slices` names the slices of devices that it holds (MIG), as the engine does.
    The rows of a workload exist exactly as long as its pods hold capacity, so the sum over all rows is what is in use.
    `evicting_since` is when the pod was evicted. `saved_at_s` is when its job told of its last checkpoint, in seconds
    since 1970; 0: of none. `is_claimed`: the app that runs jobs knows of it.
    """

    id_prefix = "place"

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="placements", db_index=False)
    pod = models.CharField(max_length=80, default=FIRST_POD)
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="placements")
    cpu_millicores = models.PositiveBigIntegerField(default=0)
    memory_bytes = models.PositiveBigIntegerField(default=0)
    gpus = models.JSONField(default=list)
    slices = models.JSONField(default=list)
    is_claimed = models.BooleanField(default=False)
    evicting_since = models.DateTimeField(null=True)
    saved_at_s = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workload", "pod"], name="one_placement_per_pod")]
        indexes = [models.Index(fields=["id"], name="unclaimed_placements", condition=models.Q(is_claimed=False))]

    def __str__(self) -> str:
        return f"{self.workload_id}/{self.pod} on {self.node_id}"


class Reservation(BaseModel):
    """Capacity reserved for a pod until its holders have terminated. `devices` names GPUs where it matters."""

    id_prefix = "prom"

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="reservations")
    pod = models.CharField(max_length=80, default=FIRST_POD)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="reservations")
    devices = models.JSONField(default=list)

    reason_code = "promised"
    """The reason code of its workload."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workload", "pod"], name="one_reservation_per_pod")]

    def __str__(self) -> str:
        return f"{self.node_id} for {self.workload_id}/{self.pod}"

    @property
    def reason(self) -> str:
        """The reason of its workload. Needs the node loaded."""
        return f"capacity on {self.node.name} is reserved for it until the work that holds it has stopped"


class PastPlacement(BaseModel):
    """Capacity that a workload, or a pod of one, held until it ended, for the history of what each queue held.

    Of workloads of one pod these are the evicted ones; what they held last says their own row.
    """

    id_prefix = "stay"

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="past_placements")
    gpu_milli = models.PositiveBigIntegerField()
    price_per_hour = models.FloatField(default=0.0)
    placed_at = models.DateTimeField()
    released_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.queue_id} until {self.released_at}"


class Eviction(BaseModel):
    """The receipt of an eviction: of which workload, for whom and by what right, and what that cost.

    `code` says why (`engine.decisions.StopCode`), `claim_class` by what right the claimant takes capacity
    (`engine.claims.ClaimClass`); empty: there is no claimant, as the work was over or stale. `is_moved`: capacity on
    another node is reserved for the victim. It held `gpu_milli` since `placed_at`. What it did after `saved_at`, its
    last checkpoint or start, is lost: `lost_gpu_s` in seconds of one GPU. The shares say what the queues of both held
    before and after the cycle against quota and fair share, in thousandths of GPUs (`engine.receipts.Held`); the delay
    and the minimum run time are the rules that the claim had to keep;
    `alternatives` lists some workloads that could have been evicted instead. `cycle` is the id of the `CycleDump`,
    which may be gone by now, or never have been stored.
    """

    id_prefix = "evict"

    at = models.DateTimeField()
    pool = models.ForeignKey(Pool, on_delete=models.SET_NULL, null=True, related_name="+")
    cycle = models.CharField(max_length=32)
    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="receipts", db_index=False)
    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="receipts")
    code = models.CharField(max_length=20)
    gpu_milli = models.PositiveBigIntegerField()
    placed_at = models.DateTimeField()
    saved_at = models.DateTimeField()
    lost_gpu_s = models.FloatField()
    is_moved = models.BooleanField()
    claimant = models.ForeignKey(Workload, on_delete=models.SET_NULL, null=True, related_name="+")
    claim_class = models.CharField(max_length=20, blank=True)
    victim_share = models.JSONField(default=dict)
    claimant_share = models.JSONField(default=dict)
    alternatives = models.JSONField(default=list)
    claim_delay_s = models.FloatField(default=0.0)
    min_runtime_s = models.FloatField(default=0.0)

    class Meta:
        indexes = [
            models.Index(fields=["at"], name="evictions_by_time"),
            models.Index(fields=["project", "at"], name="evictions_of_project"),
        ]

    def __str__(self) -> str:
        return f"{self.workload_id} at {self.at}"


class CycleDump(BaseModel):
    """What a cycle that evicted decided on in one pool, and what it decided: compressed JSON (`engine.dumps`)."""

    id_prefix = "cycle"

    created_at = models.DateTimeField(default=clock.now, editable=False, db_index=True)
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="+")
    data = models.BinaryField()

    def __str__(self) -> str:
        return self.pk


class ChangeKind(StrEnum):
    """What has changed: a workload (new, changed, its reservations, gone), a node, queues or their pool, or prices."""

    NEW = "new"
    CHANGED = "changed"
    RESERVED = "reserved"
    GONE = "gone"
    NODE = "node"
    QUEUE = "queue"
    PACKING = "packing"


class Change(models.Model):
    """A change of what cycles read, in the order in which they happened. The database writes these rows by triggers.

    `key` is the id of the row that changed, of pods that of their workload. `at` is the id of the transaction, on
    databases on which several write at once; else 0. The newest rows are kept.
    """

    id = models.BigAutoField(primary_key=True)
    kind = models.CharField(max_length=8)
    key = models.CharField(max_length=32)
    at = models.BigIntegerField(default=0, db_index=True)

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class PoolSample(BaseModel):
    """How much GPU a pool had over a span of time, in seconds of one GPU.

    `seconds` of the span were sampled: fewer than it has where the platform was down. Samples of `level` 0 follow each
    other, about one a minute; each higher level sums up those of the one below (`engine.spans`).
    """

    id_prefix = "psample"

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="samples", db_index=False)
    level = models.PositiveSmallIntegerField()
    begins_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    seconds = models.FloatField()
    capacity_gpu_s = models.FloatField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["pool", "level", "ends_at"], name="one_pool_sample_per_end")]
        indexes = [models.Index(fields=["level", "ends_at"], name="pool_samples_by_end")]

    def __str__(self) -> str:
        return f"{self.pool_id} until {self.ends_at}"


class QueueSample(BaseModel):
    """What a queue held and waited for over a span of time, in seconds of one GPU; there is none where that is nothing.

    What it held is exact, and so is its `price`; what waited at the end of a sample counts for all of it. The quota is
    that at the end.
    """

    id_prefix = "qsample"

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="samples", db_index=False)
    level = models.PositiveSmallIntegerField()
    begins_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    held_gpu_s = models.FloatField()
    pending_gpu_s = models.FloatField()
    price = models.FloatField()
    gpu_quota_milli = models.PositiveBigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["queue", "level", "ends_at"], name="one_queue_sample_per_end")]
        indexes = [models.Index(fields=["level", "ends_at"], name="queue_samples_by_end")]

    def __str__(self) -> str:
        return f"{self.queue_id} until {self.ends_at}"


class NodeSpan(BaseModel):
    """What held the GPUs of a node for a while, as seen once a minute: a new row for each change.

    `shares` lists triples of device index, project id, and thousandths of the device, in order. `ends_at` is null in
    the row that still holds.
    """

    id_prefix = "nspan"

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="spans", db_index=False)
    begins_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True)
    shares = models.JSONField(default=list)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node"], condition=models.Q(ends_at=None), name="one_open_span_per_node")
        ]
        indexes = [models.Index(fields=["node", "ends_at"], name="node_spans_by_end")]

    def __str__(self) -> str:
        return f"{self.node_id} from {self.begins_at}"


class Forecast(BaseModel):
    """When a waiting job was told that it starts, and when it did. One row for each wait, numbered from 0 by evictions.

    `name` is that of the workload, which there may not be yet while the job waits for its data. What was told first is
    scored: at `made_at` a start by `likely_at` with a chance of one half, by `late_at` of nine tenths, after the
    `raw_` seconds that the engine forecast for a wait of this class; all None while nothing was known. `latest_` is
    what is told now, with `facts` as JSON: why it waits, who holds what it waits for, and where else it could go.
    """

    id_prefix = "fcast"

    name = models.CharField(max_length=253)
    wait = models.PositiveIntegerField(default=0)
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="forecasts")
    made_at = models.DateTimeField(null=True)
    likely_at = models.DateTimeField(null=True)
    late_at = models.DateTimeField(null=True)
    raw_likely_s = models.FloatField(null=True)
    raw_late_s = models.FloatField(null=True)
    wait_class = models.CharField(max_length=32, default="")
    latest_at = models.DateTimeField()
    latest_likely_at = models.DateTimeField(null=True)
    latest_late_at = models.DateTimeField(null=True)
    facts = models.JSONField(default=dict)
    started_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name", "wait"], name="one_forecast_per_wait")]
        indexes = [models.Index(fields=["pool", "started_at"], name="forecasts_by_start")]

    def __str__(self) -> str:
        return f"{self.name} by {self.latest_likely_at}"


class Packing(BaseModel):
    """What capacity is worth to the work that is asked for lately. One row, or none while too little was asked for.

    `mix` lists how many GPU requests there were of each shape: thousandths of GPUs, millicores, bytes, count. `prices`
    is the engine's, as JSON; `requests` is how many they were learnt from.
    """

    id_prefix = "packing"

    mix = models.JSONField()
    prices = models.JSONField()
    requests = models.PositiveIntegerField()
    learnt_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"learnt from {self.requests} requests"
