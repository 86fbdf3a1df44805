"""The frozen view of one moment that a cycle decides on: nodes, queues, and jobs with their pods, also as enqueued."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from core.taints import Taint, Toleration, left_over
from core.units import ONE_GPU
from scheduler.engine.mig import Geometry, Kind, Profile
from scheduler.engine.sharing import PROMPT, SharingRules

Labels = frozenset[tuple[str, str]]
"""Labels of nodes, each with a value."""


class Quota(NamedTuple):
    """An amount of each resource that the scheduler shares out; None stands for "without bound"."""

    gpu_milli: int | None = 0
    cpu_millicores: int | None = None
    memory_bytes: int | None = None


class PodState(StrEnum):
    """The state of a pod, for the scheduler.

    `starting` was placed in this cycle, `planned` has capacity reserved that others are releasing, `stuck` has been
    terminating for so long that its capacity may not even be reserved.
    """

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    RESERVED = "planned"
    TERMINATING = "leaving"
    STUCK_TERMINATING = "stuck"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Request:
    """What one pod asks for: whole devices, or a share of each of `devices` (thousandths or MiB), or MIG slices.

    Where devices are cut as requests come, a share in MiB is served by slices, the smallest that hold it. `pool` names
    the nodes that may serve it; an empty name stands for all. Of `node_labels` a node must bear one; those that a queue
    rules are set by the engine. Of `selector` a node must bear all, and `tolerations` must cover its taints.
    `missing_bytes` says how much of its data has yet to be brought near a node, by the node's id or its pool, so that
    it goes where the data is; elsewhere all of it has to be brought.
    """

    gpus: int = 0
    share_milli: int = 0
    share_mib: int = 0
    devices: int = 1
    mig: tuple[tuple[str, int], ...] = ()
    cpu_millicores: int = 0
    memory_bytes: int = 0
    pool: str = ""
    node_labels: Labels | None = None
    selector: Labels = frozenset()
    tolerations: tuple[Toleration, ...] = ()
    missing_bytes: tuple[tuple[str, int], ...] = ()

    @property
    def is_shared(self) -> bool:
        """Whether it asks for a part of devices that others may use too."""
        return bool(self.share_milli or self.share_mib)

    @property
    def is_for_all_nodes(self) -> bool:
        """Whether it names neither a pool nor labels."""
        return not (self.pool or self.selector) and self.node_labels is None

    @property
    def wants_gpu(self) -> bool:
        """Whether it asks for any GPU at all."""
        return bool(self.gpus or self.share_milli or self.share_mib or self.mig)

    def missing_on(self, node: "NodeView") -> int | None:
        """Return the bytes that have yet to be brought near a node; None where all of them have."""
        amounts = [size for place, size in self.missing_bytes if place in {node.id, node.pool}]
        return min(amounts, default=None)

    def slices_on(self, geometry: Geometry) -> list[Profile] | None:
        """Return the slices that serve it on devices that are cut as requests come; None if such do not serve it."""
        if self.share_mib:
            smallest = geometry.smallest(self.share_mib)
            return [smallest] * self.devices if smallest is not None else None
        slices = [geometry.find(profile) for profile, count in self.mig for _ in range(count)]
        return [profile for profile in slices if profile is not None] if slices and None not in slices else None

    def charge_milli(self, kind: Kind) -> int:
        """Return the GPU that counts against quotas, in thousandths, on devices of so much memory, or so cut.

        Memory is charged in hundredths of a device, rounded up; a slice by the part it is of a device that is cut as
        requests come, else by the number its profile begins with.
        """
        if isinstance(kind, Geometry):
            slices = kind.charge_milli(self.slices_on(kind) or ())
            return ONE_GPU * self.gpus + self.devices * self.share_milli + slices
        if self.share_mib:
            return self.devices * -(-100 * self.share_mib // kind) * (ONE_GPU // 100)
        if self.mig:
            return ONE_GPU * sum(_slices_of(profile) * count for profile, count in self.mig)
        return ONE_GPU * self.gpus + self.devices * self.share_milli


def _slices_of(profile: str) -> int:
    digits = profile.rpartition("mig-")[2].partition("g")[0]
    return int(digits) if digits.isdigit() else 1


class MigStrategy(StrEnum):
    """How a node offers slices of its GPUs.

    `mixed`: slices of several profiles that are cut once, each profile a resource of its own. `single`: all GPUs are
    cut alike and each slice is a device. `dynamic`: a GPU is cut as requests come, and whole again when it is empty.
    """

    OFF = "off"
    MIXED = "mixed"
    SINGLE = "single"
    DYNAMIC = "dynamic"


@dataclass(frozen=True, slots=True)
class NodeView:
    """A machine. `devices` are its whole GPUs of `device_mib` each. They are shared only where there is no MIG.

    With the strategy `mixed`, `mig` maps profiles to the slices it offers; with `dynamic`, `geometry` says how devices
    may be cut, and without one they are only given out whole. A drained one takes nothing new.
    """

    id: str
    name: str
    cpu_millicores: int
    memory_bytes: int
    devices: tuple[int, ...] = ()
    device_mib: int = 0
    mig_strategy: MigStrategy = MigStrategy.OFF
    mig: Mapping[str, int] = field(default_factory=dict)
    geometry: Geometry | None = None
    max_pods: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    pool: str = ""
    pool_name: str = ""
    is_ready: bool = True
    is_drained: bool = False

    @property
    def is_open(self) -> bool:
        """Whether work may start on it."""
        return self.is_ready and not self.is_drained

    def bears(self, labels: Labels) -> bool:
        """Return whether it bears one of these labels."""
        return not labels.isdisjoint(self.labels.items())

    def serves(self, request: Request) -> bool:
        """Return whether it is one of the nodes that a request is for, whatever capacity it has."""
        if request.pool and request.pool != self.pool:
            return False
        return self.admits(request)

    def admits(self, request: Request) -> bool:
        """Return whether its labels and taints let a request in, whatever pool that names."""
        if request.node_labels is not None and not self.bears(request.node_labels):
            return False
        if request.selector and not request.selector <= self.labels.items():
            return False
        return not (self.taints and left_over(self.taints, request.tolerations))


@dataclass(frozen=True, slots=True)
class WorkRules:
    """What a queue rules for one kind of work. What is None is as the queue above rules, and free if none does.

    Of `node_labels` a node must bear one. A job may hold its place for `run_at_most_s` after its start, and leave its
    GPUs unused for `idle_at_most_s`; infinite lifts what a queue above rules.
    """

    node_labels: Labels | None = None
    run_at_most_s: float | None = None
    idle_at_most_s: float | None = None

    def or_else(self, above: "WorkRules") -> "WorkRules":
        """Return these rules, and those of the queue above where they say nothing."""
        return WorkRules(
            above.node_labels if self.node_labels is None else self.node_labels,
            above.run_at_most_s if self.run_at_most_s is None else self.run_at_most_s,
            above.idle_at_most_s if self.idle_at_most_s is None else self.idle_at_most_s,
        )


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue: a department or the project in it. Jobs wait in leaves only. `rank` orders equals, lowest first.

    `used` is its part (0 to 1) of what was used lately of each resource, older use counting less. Its rules for
    `training` are those for what is preemptible, the ones for `interactive` work those for what is not. The other rules
    are those of `SharingRules`: where it has none, those of the queue above hold, in the end those of the policy.
    """

    id: str
    name: str
    parent_id: str | None = None
    rank: tuple[object, ...] = ()
    priority: int = 100
    quota: Quota = Quota()
    limit: Quota = Quota(None, None, None)
    weights: tuple[float, float, float] = (1.0, 1.0, 1.0)
    used: tuple[float, float, float] = (0.0, 0.0, 0.0)
    claim_delay_s: float | None = None
    reclaim_min_runtime_s: float | None = None
    surplus_min_runtime_s: float | None = None
    evictions_at_most: int | None = None
    surplus_evictions_at_most: int | None = None
    preempt_min_runtime_s: float | None = None
    training: WorkRules = WorkRules()
    interactive: WorkRules = WorkRules()


@dataclass(frozen=True, slots=True)
class TopologyConstraint:
    """Where pods must (`required`) or should (`preferred`) stay together: levels of a topology, as node labels."""

    levels: tuple[str, ...]
    required: str | None = None
    preferred: str | None = None


@dataclass(frozen=True)
class PodSet:
    """Pods of one kind as they are enqueued, and what each asks for.

    Fewer than `min_count` (None: `count`) are worth nothing.
    `gpu_milli` is below 1000 for a fraction of one device, else a multiple of 1000 for whole devices of one node;
    `gpu_memory_bytes` asks for a share of one device by its memory instead, `mig_profile` for one slice of that
    profile. A node must bear one of `node_labels`, if there are any, and all labels of `selector`; its taints must be
    among `tolerations`. All pods come to nodes with one value of the label `required_level`, and of `preferred_level`
    as far as that is possible; empty: anywhere.
    """

    cpu_millicores: int
    memory_bytes: int
    gpu_milli: int = 0
    gpu_memory_bytes: int = 0
    name: str = ""
    count: int = 1
    min_count: int | None = None
    node_labels: Sequence[tuple[str, str]] = ()
    selector: Sequence[tuple[str, str]] = ()
    tolerations: Sequence[Toleration] = ()
    mig_profile: str = ""
    required_level: str = ""
    preferred_level: str = ""

    def to_json(self) -> dict[str, object]:
        """Return what a workload keeps of them."""
        return {
            "name": self.name,
            "count": self.count,
            "min_count": self.count if self.min_count is None else self.min_count,
            "cpu_millicores": self.cpu_millicores,
            "memory_bytes": self.memory_bytes,
            "gpu_milli": self.gpu_milli,
            "gpu_memory_bytes": self.gpu_memory_bytes,
            "node_labels": [list(label) for label in self.node_labels],
            **({"selector": [list(label) for label in self.selector]} if self.selector else {}),
            **({"tolerations": [list(each) for each in self.tolerations]} if self.tolerations else {}),
            "mig_profile": self.mig_profile,
            "required_level": self.required_level,
            "preferred_level": self.preferred_level,
        }


@dataclass(frozen=True, slots=True)
class PodSetView:
    """Pods of one kind, of which fewer than `min_available` are worth nothing."""

    name: str
    min_available: int
    topology_constraint: TopologyConstraint | None = None


@dataclass(frozen=True, slots=True)
class GroupView:
    """Pod sets or groups that belong together. `min_children` None: all of them are needed."""

    children: tuple["GroupView | PodSetView", ...]
    min_children: int | None = None
    topology_constraint: TopologyConstraint | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class PodView:
    """One process. `devices` names the GPUs it holds on its node, where they are shared or known.

    Slices of devices that are cut as requests come are named by device, profile and start: `0:3g.20gb@4`.
    """

    id: str
    state: PodState
    request: Request
    pod_set: str = ""
    node_id: str | None = None
    devices: tuple[str, ...] = ()
    urgency: int | None = None
    allowed_nodes: frozenset[str] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    together_by: str | None = None
    apart_by: str | None = None

    @property
    def may_run_anywhere(self) -> bool:
        """Whether nothing but capacity and the rules of its queue decide where it may run."""
        return self.allowed_nodes is None and self.together_by is None and self.apart_by is None


@dataclass(frozen=True, slots=True)
class JobView:
    """A workload: pods that start, and are stopped, by the rules of their structure. `rank` orders by age.

    `pools` names, best first, those of which one is to serve all its pods, whose requests name none then; it is empty
    where the requests say everything.

    `saved_at` is when its work was last safe, at its last checkpoint or its start, in seconds on a clock that all jobs
    share; None is unknown. `running_for_s` is how long it has run since it got its place, or the last of these lengths
    that any rule looks at, and `runs_since` when it got it, on the clock of `saved_at`. `idle_for_s` is for how long
    none of its GPUs has been used; None: it does not run, or that is unknown. `evictions` counts how often it lost its
    place before, `waited_s` is the shortest wait for which nodes are reserved for it, or not, as they are now
    (`Policy.wait_span`); None is unknown, and then none are. `waits_since` is when it began to wait, on the clock of
    `saved_at`; None: as `waited_s` says.
    `claims_at` is when its claim delay ends, on the clock of `saved_at`: until then nothing is taken from other queues,
    or moved, for it; None: it has ended. `name` is what people call it.
    """

    id: str
    queue_id: str
    pods: tuple[PodView, ...]
    structure: GroupView
    priority: int = 50
    is_preemptible: bool = True
    rank: tuple[object, ...] = ()
    running_for_s: float | None = None
    runs_since: float | None = None
    idle_for_s: float | None = None
    may_evict: bool = True
    stale_for_s: float | None = None
    stale_grace_s: float | None = None
    saved_at: float | None = None
    evictions: int = 0
    waited_s: float | None = None
    waits_since: float | None = None
    claims_at: float | None = None
    pools: tuple[str, ...] = ()
    name: str = ""

    @property
    def label(self) -> str:
        """What people call it."""
        return self.name or self.id


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a cycle knows. The order of its parts carries no meaning."""

    nodes: Sequence[NodeView] = ()
    queues: Sequence[QueueView] = ()
    jobs: Sequence[JobView] = ()


class Fill(StrEnum):
    """Which of several places is taken: the fullest, the emptiest, the first by name, or the least missed later.

    `mix` goes by the policy's prices of capacity; without any it is `pack`.
    """

    PACK = "pack"
    SPREAD = "spread"
    BY_NAME = "by_name"
    MIX = "mix"


_PROPORTIONAL = tuple(part / 100 for part in range(101))


@dataclass(frozen=True, slots=True)
class CapacityPrices:
    """What capacity is worth to the work still to come, in devices (`rules/packing.py` works it out).

    `device[r]` is the worth of a device of which r hundredths are free, `cores_per_device` (millicores) and
    `memory_per_device` (bytes) what work asks for with each device, 0 when nothing, and `premiums` how much dearer
    capacity is in the pools that some work cannot do without. With r hundredths of the usual cores, the part
    `served_by_cores[r]` of the devices can be used, by the work that asks for the fewest; so too for memory.
    """

    device: tuple[float, ...]
    cores_per_device: float = 0.0
    memory_per_device: float = 0.0
    premiums: Mapping[str, float] = field(default_factory=dict)
    served_by_cores: tuple[float, ...] = _PROPORTIONAL
    served_by_memory: tuple[float, ...] = _PROPORTIONAL


@dataclass(frozen=True, slots=True)
class Policy:
    """How a site shares its capacity.

    With `honors_reservations` no pod is evicted that starts or has a reservation, the victims are those that lose least
    work, and a job is stopped only so often. Nodes are reserved for a big job that waited for `reserve_after_s` (None:
    never), for `reserve_for_s` at a time at most. `sharing` are the rules of the pool; running work is moved together
    only while it `consolidates`.
    """

    gpu_nodes: Fill = Fill.PACK
    cpu_nodes: Fill = Fill.PACK
    devices: Fill = Fill.PACK
    prices: CapacityPrices | None = None
    quotas: bool = True
    priorities: bool = True
    prefers_free_now: bool = True
    prefers_shared_devices: bool = True
    keeps_cpu_work_off_gpus: bool = True
    min_runtime: bool = True
    topology: bool = True
    honors_reservations: bool = True
    stale_grace_s: float = 60.0
    sharing: SharingRules = PROMPT
    consolidates: bool = True
    reserve_after_s: float | None = 900.0
    reserve_for_s: float = 3600.0

    def reserves_after(self, waited_s: float | None) -> bool:
        """Return whether nodes are reserved after such a wait: for some time after some waiting, and then again."""
        if self.reserve_after_s is None or waited_s is None:
            return False
        _, begin_s, _ = self._reservation_near(self.reserve_after_s, waited_s)
        return waited_s >= begin_s

    def wait_span(self, waited_s: float) -> tuple[float, float]:
        """Return from which wait to which one, exclusive, `reserves_after` says the same as after this one."""
        if self.reserve_after_s is None:
            return 0.0, math.inf
        before_s, begin_s, end_s = self._reservation_near(self.reserve_after_s, waited_s)
        return (begin_s, end_s) if waited_s >= begin_s else (before_s, begin_s)

    def _reservation_near(self, least_s: float, waited_s: float) -> tuple[float, float, float]:
        """Return the waits at which one reservation ends, and the next begins and ends, which is not over.

        Each time twice as much waiting goes by before, so capacity that turns out to be of no use stands empty ever
        more seldom. Nothing has to be remembered between cycles.
        """
        before_s, end_s = 0.0, least_s + self.reserve_for_s
        while waited_s >= end_s:
            before_s, end_s = end_s, 2 * end_s
        return before_s, end_s - self.reserve_for_s, end_s


NEARLINE = Policy()
"""The default: the rules of the open-sourced Run:AI scheduler, and what Nearline adds to them."""

PARITY = Policy(honors_reservations=False, reserve_after_s=None)
"""Exactly the decisions of the open-sourced Run:AI scheduler."""
