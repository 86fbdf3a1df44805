"""The state that decisions are made on: every move of a pod is counted everywhere, and can be rolled back."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import NamedTuple

from core.memory import not_collected
from core.units import ONE_GPU
from scheduler.engine.claims import Claim
from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Job, Pod
from scheduler.engine.ledger import HOLDING, NodeLedger
from scheduler.engine.lines import VictimLines, WaitingLines
from scheduler.engine.mig import Kind
from scheduler.engine.node_table import NodeTable
from scheduler.engine.queues import QueueState, build_queues, share_out
from scheduler.engine.shapes import Shape
from scheduler.engine.snapshot import JobView, Labels, PodState, Policy, Request, Snapshot

MovedFrom = tuple[str, tuple[str, ...]]


class Cause(NamedTuple):
    """Why pods are evicted, for which job, and what it claims."""

    code: StopCode
    job: Job | None = None
    claim: Claim | None = None


Undo = tuple[Pod, PodState, NodeLedger | None, tuple[str, ...], MovedFrom | None]


class Session:
    """A snapshot, and what was decided on top of it. It may be cached for the next cycle, which applies the changes.

    `trials_of_moves` bounds how many more sets of pods are moved together on trial. `has_consolidated`: moves could
    have let something start in this cycle, and were looked for. `has_looked_for_moves`: since the last change they
    were, so to look again gives nothing.
    """

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.policy = policy
        self.changes: list[int] = []
        views = sorted(snapshot.nodes, key=lambda node: (node.name, node.id))
        self.nodes = [NodeLedger(view, index, self.changes) for index, view in enumerate(views)]
        self.node_of = {node.view.id: node for node in self.nodes}
        self.ready = [node for node in self.nodes if node.view.is_open]
        self.queues: dict[str, QueueState] = build_queues(snapshot.queues)
        sizes = [node.view.device_mib for node in self.ready if node.view.device_mib]
        self._smallest_mib, self._largest_mib = min(sizes, default=100), max(sizes, default=100)
        self.shapes: dict[Request, Shape] = {}
        self.jobs: dict[str, Job] = {}
        self.waiting: dict[str, Job] = {}
        self.reserved: dict[str, Job] = {}
        self.partial: dict[str, Job] = {}
        self.reserved_nodes: dict[Job, list[NodeLedger]] = {}
        self.victim_lines = VictimLines(policy)
        self.waiting_lines = WaitingLines(policy)
        self.cause = Cause(StopCode.STALE)
        self.causes: dict[Pod, Cause] = {}
        self.trials_of_moves = inf
        self.has_consolidated = self.has_looked_for_moves = False
        self._log: list[Undo] = []
        self.table = NodeTable(self.nodes, self.changes)
        self._free = [node.free_milli() if node.view.is_open else 0 for node in self.nodes]
        self._free_sum, self._free_seen = sum(self._free), 0
        with not_collected():
            for view in snapshot.jobs:
                if view.queue_id in self.queues:
                    self._add(view)
        self.total = self._total()
        share_out(self.queues, self.total, usage_pull=self.policy.sharing.usage_pull)

    def _add(self, view: JobView) -> None:
        queue = self.queues[view.queue_id]
        labels = queue.rules_for(view).node_labels
        shape_of = self.shape_of if labels is None else partial(self._shape_on, labels=labels)
        job = self.jobs[view.id] = Job(view, queue, shape_of)
        for pod in job.pods:
            node = self.node_of.get(pod.view.node_id) if pod.view.node_id is not None else None
            self._set(pod, pod.view.state, node, pod.view.devices, None)
        gpu = self.charge_all(job.pods)[0]
        for queue in job.line:
            queue.largest = max(queue.largest, gpu)

    def change(self, jobs: Iterable[JobView], gone: Iterable[str] = ()) -> None:
        """Begin another cycle: what was decided is dropped; these jobs are new or have changed, and others are gone.

        Costs as much as what was decided and what changed. Other nodes, queues or policies need a new session.
        """
        self.rollback(0)
        self.causes.clear()
        self.has_consolidated = self.has_looked_for_moves = False
        for job in list(self.reserved_nodes):
            self.release_nodes(job)
        views = list(jobs)
        for job_id in (*gone, *(view.id for view in views)):
            self._drop(job_id)
        self.victim_lines.settle()
        self.waiting_lines.settled()
        for view in views:
            if view.queue_id in self.queues:
                self._add(view)
        share_out(self.queues, self.total, usage_pull=self.policy.sharing.usage_pull)
        if len(self.changes) > len(self.nodes):
            for shape in self.shapes.values():
                shape.settle(self.table, self.policy)
            self.table.settle()
            self.free_milli()
            self._free_seen = 0
            self.changes.clear()

    def accept(self, started: Iterable[JobView]) -> None:
        """Make all that was decided come true, which are starts of these jobs: views of them as they run.

        It is as `change` with them, for a part of its cost. Nothing else may have been decided.
        """
        for view in started:
            job, pods = self.jobs[view.id], {pod.id: pod for pod in view.pods}
            job.view = view
            for pod in job.pods:
                pod.view, pod.state = pods[pod.id], PodState.RUNNING
            if view.is_preemptible:
                self.victim_lines.touch(job)
        self._log.clear()

    def _drop(self, job_id: str) -> None:
        job = self.jobs.pop(job_id, None)
        for pod in job.pods if job is not None else ():
            self._count(pod, -1)

    def shape_of(self, request: Request) -> Shape:
        """Return the shape that all pods with this request share."""
        shape = self.shapes.get(request)
        if shape is None:
            shape = self.shapes[request] = Shape(request, *self._kinds_for(request))
        return shape

    def _shape_on(self, request: Request, *, labels: Labels) -> Shape:
        return self.shape_of(replace(request, node_labels=labels))

    def _kinds_for(self, request: Request) -> tuple[Kind, Kind]:
        """Return the devices on which what waits counts as usual, and least: slices as usual where they are counted."""
        # What a pod counts must not depend on the pool in which it looks for capacity.
        nodes = self.ready if request.mig else ()
        able = [node.geometry for node in nodes if node.geometry is not None and request.slices_on(node.geometry)]
        if not able:
            return self._smallest_mib, self._largest_mib
        cheapest = min(able, key=request.charge_milli)
        is_counted = any(profile in node.view.mig for node in nodes for profile, _ in request.mig)
        return self._smallest_mib if is_counted else cheapest, cheapest

    def _total(self) -> tuple[int, int, int]:
        gpus = sum(len(node.view.devices) for node in self.ready)
        slices = sum(
            Request(mig=((profile, count),)).charge_milli(1)
            for node in self.ready
            for profile, count in node.view.mig.items()
        )
        return (
            ONE_GPU * gpus + slices,
            sum(node.view.cpu_millicores for node in self.ready),
            sum(node.view.memory_bytes for node in self.ready),
        )

    # --- moves

    def start(self, pod: Pod, node: NodeLedger, devices: tuple[str, ...]) -> None:
        """Start a pod on idle capacity."""
        self._move(pod, PodState.STARTING, node, devices, pod.moved_from)

    def reserve(self, pod: Pod, node: NodeLedger, devices: tuple[str, ...]) -> None:
        """Reserve capacity for a pod. A pod that this cycle evicts runs on if its own place is reserved for it."""
        if not pod.was_evicted:
            self._move(pod, PodState.RESERVED, node, devices, pod.moved_from)
        elif pod.node is node and (
            set(devices) == set(pod.devices) if devices else not node.has_reserved_part(pod.devices)
        ):
            self._move(pod, pod.view.state, node, pod.devices, None)
        else:
            assert pod.node is not None  # noqa: S101 (what leaves is somewhere)
            self._move(pod, PodState.RESERVED, node, devices, (pod.node.view.id, pod.devices))

    def evict(self, pod: Pod) -> None:
        """Evict a pod for the present `cause`; one that was only started or reserved is pending again."""
        if pod.moved_from is not None:
            self._move(pod, PodState.TERMINATING, self.node_of[pod.moved_from[0]], pod.moved_from[1], None)
        elif pod.view.state is PodState.RUNNING:
            self.causes[pod] = self.cause
            self._move(pod, PodState.TERMINATING, pod.node, pod.devices, None)
        else:
            self._move(pod, PodState.PENDING, None, (), None)

    def end(self, job: Job) -> None:
        """End a job: its running pods are evicted for the present `cause`, and no pod of it is pending any more."""
        for pod in job.pods:
            if pod.state in HOLDING:
                self.evict(pod)
            if pod.state is PodState.PENDING:
                self._move(pod, PodState.FAILED, None, (), None)

    def checkpoint(self) -> int:
        """Return a point to which `rollback` can return."""
        return len(self._log)

    def rollback(self, checkpoint: int) -> None:
        """Undo every move since the checkpoint."""
        while len(self._log) > checkpoint:
            pod, state, node, devices, moved_from = self._log.pop()
            self._count(pod, -1)
            self._set(pod, state, node, devices, moved_from)

    def moved_since(self, checkpoint: int) -> list[Pod]:
        """Return the pods moved since a checkpoint, each once, in order of their first move."""
        return list(dict.fromkeys(entry[0] for entry in self._log[checkpoint:]))

    def _move(
        self, pod: Pod, state: PodState, node: NodeLedger | None, devices: tuple[str, ...], moved_from: MovedFrom | None
    ) -> None:
        self._log.append((pod, pod.state, pod.node, pod.devices, pod.moved_from))
        self._count(pod, -1)
        self._set(pod, state, node, devices, moved_from)

    def _set(
        self, pod: Pod, state: PodState, node: NodeLedger | None, devices: tuple[str, ...], moved_from: MovedFrom | None
    ) -> None:
        pod.state, pod.node, pod.devices, pod.moved_from = state, node, devices, moved_from
        self._count(pod, 1)

    def _count(self, pod: Pod, sign: int) -> None:
        state, node, request = pod.state, pod.node, pod.shape.request
        if node is not None:
            node.count(request, state, pod.devices, sign)
        if pod.moved_from is not None:
            self.node_of[pod.moved_from[0]].count(request, PodState.TERMINATING, pod.moved_from[1], sign)
        if state is PodState.PENDING:
            self._count_waiting(pod, sign)
        elif state in HOLDING:
            self._count_holding(pod, sign)

    def _count_waiting(self, pod: Pod, sign: int) -> None:
        job = pod.job
        job.waiting += sign
        _set_member(self.waiting, job, is_in=job.waiting > 0)
        self.waiting_lines.touch(job)
        for queue in job.line:
            queue.add_waiting(pod.shape.charge(), sign)

    def _count_holding(self, pod: Pod, sign: int) -> None:
        job, node = pod.job, pod.node
        if pod.state is PodState.RESERVED:
            pod.pod_set.reserved += sign
            job.reserved += sign
            _set_member(self.reserved, job, is_in=job.reserved > 0)
        else:
            pod.pod_set.active += sign
        job.holding += sign
        if job.waiting:
            self.waiting_lines.touch(job)
        _set_member(self.partial, job, is_in=job.holding > 0 and not job.is_whole())
        charge = pod.shape.charge(node.kind if node is not None else 0)
        is_firm = not job.view.is_preemptible
        for queue in job.line:
            queue.add_held(charge, sign, is_firm=is_firm)
        if not is_firm:
            self.victim_lines.touch(job)

    # --- nodes reserved for big jobs

    def reserve_nodes(self, job: Job, nodes: list[NodeLedger]) -> None:
        """Reserve what is free on nodes, or gets free, for a job: until `release_nodes` no new pod is placed there."""
        self.reserved_nodes[job] = nodes
        for node in nodes:
            node.reserve()

    def release_nodes(self, job: Job) -> list[NodeLedger]:
        """Drop the reservation of a job, if it has one, and return its nodes."""
        nodes = self.reserved_nodes.pop(job, [])
        for node in nodes:
            node.release()
        return nodes

    # --- sums

    def charge_of(self, pod: Pod) -> tuple[int, int, int]:
        """Return what a pod counts where it is; what waits counts as on the smallest devices."""
        return pod.shape.charge(pod.node.kind if pod.node is not None else 0)

    def charge_all(self, pods: Iterable[Pod], *, at_least: bool = False) -> tuple[int, int, int]:
        """Return what pods count together; what waits as usual, or `at_least` as where it counts least."""
        gpu = cpu = memory = 0
        for pod in pods:
            node = pod.node
            amounts = pod.shape.charge(node.kind if node is not None else pod.shape.least if at_least else 0)
            gpu += amounts[0]
            cpu += amounts[1]
            memory += amounts[2]
        return gpu, cpu, memory

    def free_milli(self) -> int:
        """Return the thousandths of GPUs that are idle or about to be, on all open nodes together."""
        for index in self.changes[self._free_seen :]:
            node = self.nodes[index]
            free = node.free_milli() if node.view.is_open else 0
            self._free_sum += free - self._free[index]
            self._free[index] = free
        self._free_seen = len(self.changes)
        return self._free_sum

    def serving(self, request: Request) -> list[NodeLedger]:
        """Return the nodes that take work and are for a request, whatever capacity they have."""
        if request.is_for_all_nodes:
            return self.ready
        return [node for node in self.ready if node.view.serves(request)]

    def best_node(self, pod: Pod) -> NodeLedger | None:
        """Return the best of all nodes with capacity for a pod, now or soon."""
        return pod.shape.best(self.table, self.policy)


def _set_member(jobs: dict[str, Job], job: Job, *, is_in: bool) -> None:
    if is_in:
        jobs[job.view.id] = job
    else:
        jobs.pop(job.view.id, None)


def asks_for(amounts: Sequence[float]) -> list[int]:
    """Return the resources of which an amount asks for any."""
    return [resource for resource, amount in enumerate(amounts) if amount]
