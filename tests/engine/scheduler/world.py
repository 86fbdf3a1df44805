"""A small world around the engine: jobs are submitted and deleted, cycles run, what was told happens."""

from dataclasses import replace

from scheduler.engine.cycle import ACTIONS
from scheduler.engine.jobs import Task
from scheduler.engine.session import Session
from scheduler.engine.snapshot import JobView, NodeView, Policy, QueueView, Snapshot, TaskState, TaskView


class World:
    """A cluster that does at once what a cycle decides; the evicted wait again."""

    def __init__(self, nodes: list[NodeView], queues: list[QueueView], policy: Policy = Policy()) -> None:  # noqa: B008
        self.policy = policy
        self.snapshot = Snapshot(nodes, queues, [])
        self.evicted: list[str] = []

    def submit(self, *jobs: JobView) -> None:
        """Let jobs wait."""
        self.snapshot = replace(self.snapshot, jobs=[*self.snapshot.jobs, *jobs])

    def delete(self, *names: str) -> None:
        """Take jobs out, whatever they do."""
        assert {job.id for job in self.snapshot.jobs} >= set(names)
        self.snapshot = replace(self.snapshot, jobs=[job for job in self.snapshot.jobs if job.id not in names])

    def cycle(self) -> bool:
        """Run one cycle and return whether anything moved."""
        session = Session(self.snapshot, self.policy)
        for action in ACTIONS.values():
            action(session)
        self.evicted += [t.id for t in session.moved_since(0) if t.view.state is TaskState.RUNNING and t.was_evicted]
        now = {task.id: task for job in session.jobs.values() for task in job.tasks}
        jobs = [
            self._aged(replace(job, tasks=tuple(self._next(t, now[t.id]) for t in job.tasks)))
            for job in self.snapshot.jobs
        ]
        has_moved = jobs != list(self.snapshot.jobs)
        self.snapshot = replace(self.snapshot, jobs=jobs)
        return has_moved

    def settle(self, *, at_most: int = 20) -> int:
        """Run cycles until nothing moves any more; return how many it took."""
        for number in range(at_most):
            if not self.cycle():
                return number
        raise AssertionError(f"still moving after {at_most} cycles")

    def _aged(self, job: JobView) -> JobView:
        """Return a job with the time for which it has been half a gang, a minute a cycle."""
        up = sum(task.state in {TaskState.RUNNING, TaskState.PLANNED} for task in job.tasks)
        is_half = any(t.state is TaskState.RUNNING for t in job.tasks) and up < job.structure.children[0].min_available
        return replace(job, stale_for_s=(job.stale_for_s or 0) + 60 if is_half else None)

    def _next(self, task: TaskView, now: Task) -> TaskView:
        if now.state is TaskState.STARTING and now.node is not None:
            return replace(task, state=TaskState.RUNNING, node_id=now.node.view.id, devices=now.devices)
        if now.state is TaskState.PLANNED and now.node is not None:
            return replace(task, state=TaskState.PLANNED, node_id=now.node.view.id, devices=now.devices)
        if now.state in {TaskState.PENDING, TaskState.LEAVING}:
            return replace(task, state=TaskState.PENDING, node_id=None, devices=())
        return task

    def running(self) -> set[str]:
        """Return the jobs of which a task runs."""
        return {job.id for job in self.snapshot.jobs for task in job.tasks if task.state is TaskState.RUNNING}

    def waiting(self) -> set[str]:
        """Return the jobs of which a task waits."""
        return {job.id for job in self.snapshot.jobs for task in job.tasks if task.state is TaskState.PENDING}

    def node_of(self, name: str) -> str | None:
        """Return the node of a job's first task."""
        return next(job.tasks[0].node_id for job in self.snapshot.jobs if job.id == name)

    def allocated(self) -> dict[str, float]:
        """Return the GPUs that each queue holds."""
        held = dict.fromkeys((queue.id for queue in self.snapshot.queues), 0.0)
        for job in self.snapshot.jobs:
            for task in job.tasks:
                if task.state is TaskState.RUNNING:
                    held[job.queue_id] += task.request.charge_milli(1) / 1000
        return held
