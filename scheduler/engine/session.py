"""The state that decisions are made on: every move of a task is counted everywhere, and can be taken back."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Job, Task
from scheduler.engine.ledger import HOLDING, NodeLedger
from scheduler.engine.mig import Kind
from scheduler.engine.queues import QueueState, build_queues, share_out
from scheduler.engine.shapes import Shape
from scheduler.engine.snapshot import JobView, Labels, Policy, Request, Snapshot, TaskState
from scheduler.engine.victims import VictimLines
from scheduler.engine.waiting import WaitingLines

Left = tuple[str, tuple[str, ...]]
Cause = tuple[StopCode, Job | None]
"""Why tasks are told to leave, and for which job."""

Undo = tuple[Task, TaskState, NodeLedger | None, tuple[str, ...], Left | None]


class Session:
    """A snapshot, and what was decided on top of it. It may be kept for the next cycle, and told what has changed."""

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
        self.promised: dict[str, Job] = {}
        self.partial: dict[str, Job] = {}
        self.kept: dict[Job, list[NodeLedger]] = {}
        self.lines = VictimLines(policy)
        self.waiting_lines = WaitingLines(policy)
        self.cause: Cause = (StopCode.STALE, None)
        self.causes: dict[Task, Cause] = {}
        self._log: list[Undo] = []
        self._free = [node.free_milli() if node.view.is_open else 0 for node in self.nodes]
        self._free_sum, self._free_seen = sum(self._free), 0
        for view in snapshot.jobs:
            if view.queue_id in self.queues:
                self._add(view)
        self.total = self._total()
        share_out(self.queues, self.total, usage_pull=self.policy.usage_pull)

    def _add(self, view: JobView) -> None:
        queue = self.queues[view.queue_id]
        labels = queue.rules_for(view).node_labels
        shape_of = self.shape_of if labels is None else partial(self._shape_on, labels=labels)
        job = self.jobs[view.id] = Job(view, queue, shape_of)
        for task in job.tasks:
            node = self.node_of.get(task.view.node_id) if task.view.node_id is not None else None
            self._set(task, task.view.state, node, task.view.devices, None)
        gpu = self.charge_all(job.tasks)[0]
        for queue in job.line:
            queue.largest = max(queue.largest, gpu)

    def change(self, jobs: Iterable[JobView], gone: Iterable[str] = ()) -> None:
        """Begin another cycle: what was decided is dropped; these jobs are new or have changed, and others are gone.

        Costs as much as what was decided and what changed. Other nodes, queues or policies need a new session.
        """
        self.take_back(0)
        self.causes.clear()
        for job in list(self.kept):
            self.let_go(job)
        views = list(jobs)
        for job_id in (*gone, *(view.id for view in views)):
            self._drop(job_id)
        self.lines.settle()
        self.waiting_lines.settled()
        for view in views:
            if view.queue_id in self.queues:
                self._add(view)
        share_out(self.queues, self.total, usage_pull=self.policy.usage_pull)
        if len(self.changes) > len(self.nodes):
            for shape in self.shapes.values():
                shape.settle(self.nodes, self.changes, self.policy)
            self.free_milli()
            self._free_seen = 0
            self.changes.clear()

    def _drop(self, job_id: str) -> None:
        job = self.jobs.pop(job_id, None)
        for task in job.tasks if job is not None else ():
            self._count(task, -1)

    def shape_of(self, request: Request) -> Shape:
        """Return the shape that all tasks with this request share."""
        shape = self.shapes.get(request)
        if shape is None:
            shape = self.shapes[request] = Shape(request, *self._kinds_for(request))
        return shape

    def _shape_on(self, request: Request, *, labels: Labels) -> Shape:
        return self.shape_of(replace(request, node_labels=labels))

    def _kinds_for(self, request: Request) -> tuple[Kind, Kind]:
        """Return the devices on which what waits counts as usual, and least: slices as usual where they are counted."""
        # What a task counts must not depend on the pool in which it looks for room.
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
            1000 * gpus + slices,
            sum(node.view.cpu_millicores for node in self.ready),
            sum(node.view.memory_bytes for node in self.ready),
        )

    # --- moves

    def start(self, task: Task, node: NodeLedger, devices: tuple[str, ...]) -> None:
        """Give a task room that is idle."""
        self._move(task, TaskState.STARTING, node, devices, task.left)

    def plan(self, task: Task, node: NodeLedger, devices: tuple[str, ...]) -> None:
        """Promise a task room. A task that this cycle evicted goes on as before if it is promised its own place."""
        if not task.was_evicted:
            self._move(task, TaskState.PLANNED, node, devices, task.left)
        elif task.node is node and (not devices or set(devices) == set(task.devices)):
            self._move(task, task.view.state, node, task.devices, None)
        else:
            assert task.node is not None  # noqa: S101 (what leaves is somewhere)
            self._move(task, TaskState.PLANNED, node, devices, (task.node.view.id, task.devices))

    def evict(self, task: Task) -> None:
        """Tell a task to leave, for the `cause` at hand; what was only started or promised now simply waits again."""
        if task.left is not None:
            self._move(task, TaskState.LEAVING, self.node_of[task.left[0]], task.left[1], None)
        elif task.view.state is TaskState.RUNNING:
            self.causes[task] = self.cause
            self._move(task, TaskState.LEAVING, task.node, task.devices, None)
        else:
            self._move(task, TaskState.PENDING, None, (), None)

    def end(self, job: Job) -> None:
        """End a job: what of it runs is told to leave, for the `cause` at hand, and nothing of it waits any more."""
        for task in job.tasks:
            if task.state in HOLDING:
                self.evict(task)
            if task.state is TaskState.PENDING:
                self._move(task, TaskState.FAILED, None, (), None)

    def mark(self) -> int:
        """Return a point to which `take_back` can return."""
        return len(self._log)

    def take_back(self, mark: int) -> None:
        """Undo every move since the mark."""
        while len(self._log) > mark:
            task, state, node, devices, left = self._log.pop()
            self._count(task, -1)
            self._set(task, state, node, devices, left)

    def moved_since(self, mark: int) -> list[Task]:
        """Return the tasks moved since a mark, each once, in order of their first move."""
        return list(dict.fromkeys(entry[0] for entry in self._log[mark:]))

    def _move(
        self, task: Task, state: TaskState, node: NodeLedger | None, devices: tuple[str, ...], left: Left | None
    ) -> None:
        self._log.append((task, task.state, task.node, task.devices, task.left))
        self._count(task, -1)
        self._set(task, state, node, devices, left)

    def _set(
        self, task: Task, state: TaskState, node: NodeLedger | None, devices: tuple[str, ...], left: Left | None
    ) -> None:
        task.state, task.node, task.devices, task.left = state, node, devices, left
        self._count(task, 1)

    def _count(self, task: Task, sign: int) -> None:
        state, node, request = task.state, task.node, task.shape.request
        if node is not None:
            node.count(request, state, task.devices, sign)
        if task.left is not None:
            self.node_of[task.left[0]].count(request, TaskState.LEAVING, task.left[1], sign)
        if state is TaskState.PENDING:
            self._count_waiting(task, sign)
        elif state in HOLDING:
            self._count_holding(task, sign)

    def _count_waiting(self, task: Task, sign: int) -> None:
        job = task.job
        job.waiting += sign
        _keep(self.waiting, job, is_in=job.waiting > 0)
        self.waiting_lines.touch(job)
        for queue in job.line:
            queue.add_waiting(task.shape.charge(), sign)

    def _count_holding(self, task: Task, sign: int) -> None:
        job, node = task.job, task.node
        if task.state is TaskState.PLANNED:
            task.pod_set.planned += sign
            job.planned += sign
            _keep(self.promised, job, is_in=job.planned > 0)
        else:
            task.pod_set.active += sign
        job.holding += sign
        if job.waiting:
            self.waiting_lines.touch(job)
        _keep(self.partial, job, is_in=job.holding > 0 and not job.is_whole())
        charge = task.shape.charge(node.kind if node is not None else 0)
        is_firm = not job.view.is_preemptible
        for queue in job.line:
            queue.add_held(charge, sign, is_firm=is_firm)
        if not is_firm:
            self.lines.touch(job)

    # --- room that is kept

    def keep(self, job: Job, nodes: list[NodeLedger]) -> None:
        """Keep what is free on nodes, or gets free, for a job: until `let_go` nobody new is given room there."""
        self.kept[job] = nodes
        for node in nodes:
            node.keep()

    def let_go(self, job: Job) -> list[NodeLedger]:
        """Open what was kept for a job, if anything was, and return those nodes."""
        nodes = self.kept.pop(job, [])
        for node in nodes:
            node.let_go()
        return nodes

    # --- sums

    def charge_of(self, task: Task) -> tuple[int, int, int]:
        """Return what a task counts where it is; what waits counts as on the smallest devices."""
        return task.shape.charge(task.node.kind if task.node is not None else 0)

    def charge_all(self, tasks: Iterable[Task], *, at_least: bool = False) -> tuple[int, int, int]:
        """Return what tasks count together; what waits as usual, or `at_least` as where it counts least."""
        gpu = cpu = memory = 0
        for task in tasks:
            node = task.node
            amounts = task.shape.charge(node.kind if node is not None else task.shape.least if at_least else 0)
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
        """Return the nodes that take work and are for a request, whatever room they have."""
        if request.is_for_all_nodes:
            return self.ready
        return [node for node in self.ready if node.view.serves(request)]

    def best_node(self, task: Task) -> NodeLedger | None:
        """Return the best of all nodes with room for a task, now or soon."""
        return task.shape.best(self.nodes, self.changes, self.policy)


def _keep(jobs: dict[str, Job], job: Job, *, is_in: bool) -> None:
    if is_in:
        jobs[job.view.id] = job
    else:
        jobs.pop(job.view.id, None)


def asks_for(amounts: Sequence[float]) -> list[int]:
    """Return the resources of which an amount asks for any."""
    return [resource for resource, amount in enumerate(amounts) if amount]
