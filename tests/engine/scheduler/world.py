"""A small world around the engine: jobs are submitted and deleted, cycles run, what was told happens, or does not."""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import FOR_GOOD, Decision, Explain, Reserve, Start, Stop, StopCode, Withdraw
from scheduler.engine.snapshot import (
    GroupView,
    JobView,
    NodeView,
    PodSetView,
    PodState,
    PodView,
    Policy,
    QueueView,
    Snapshot,
)
from tests.factories.scheduler import needs

UP = frozenset({PodState.RUNNING, PodState.RESERVED})
ON_NODES = frozenset({PodState.RUNNING, PodState.TERMINATING, PodState.STUCK_TERMINATING})
CYCLE_S = 60


def gang(name: str, queue_name: str, gpus: float, count: int, least: int, **more) -> JobView:
    """Return a waiting job of `count` equal pods of which fewer than `least` are worth nothing."""
    pods = tuple(PodView(f"{name}-{i}", PodState.PENDING, needs(gpus, resource="lab")) for i in range(count))
    return JobView(name, queue_name, pods, GroupView((PodSetView("", least),)), **more)


def choosing(job: JobView, *pools: str) -> JobView:
    """Return a job that may go to one of some pools, the best first."""
    pods = tuple(replace(pod, request=replace(pod.request, pool="")) for pod in job.pods)
    return replace(job, pools=pools, pods=pods)


def is_half_up(job: JobView) -> bool:
    """Return whether some of a job runs, but less than it needs."""
    up = Counter(pod.pod_set for pod in job.pods if pod.state in UP)

    def has_enough(part: GroupView | PodSetView) -> bool:
        if isinstance(part, PodSetView):
            return up[part.name] >= part.min_available
        return sum(map(has_enough, part.children)) >= (part.min_children or len(part.children))

    return any(pod.state is PodState.RUNNING for pod in job.pods) and not has_enough(job.structure)


def follow(pod: PodView, told: list[Decision]) -> PodView:
    """Return a pod as it is once all that was decided about it has happened."""
    for decision in told:
        if isinstance(decision, Stop | Withdraw):
            pod = replace(pod, state=PodState.PENDING, node_id=None, devices=())
        elif isinstance(decision, Start | Reserve):
            state = PodState.RUNNING if isinstance(decision, Start) else PodState.RESERVED
            pod = replace(pod, state=state, node_id=decision.node_id, devices=decision.devices)
    return pod


def told_to(decisions: list[Decision]) -> dict[str, list[Decision]]:
    """Return the moves of each pod."""
    told: dict[str, list[Decision]] = {}
    for decision in decisions:
        if not isinstance(decision, Explain):
            told.setdefault(decision.pod_id, []).append(decision)
    return told


def apply(snapshot: Snapshot, decisions: list[Decision]) -> Snapshot:
    """Return what a cluster looks like when all that was decided has happened."""
    told = told_to(decisions)
    ended = ended_by(decisions)
    snapshot = replace(snapshot, jobs=[job for job in snapshot.jobs if job.id not in ended])
    return _with_pods(snapshot, lambda pod: follow(pod, told.get(pod.id, [])))


def ended_by(decisions: Iterable[Decision]) -> set[str]:
    """Return the jobs that were stopped for good."""
    return {d.job_id for d in decisions if isinstance(d, Stop) and d.code in FOR_GOOD}


def arrive(snapshot: Snapshot) -> Snapshot:
    """Return what it looks like when all who were promised capacity run; promises of whole devices get free ones."""
    taken = {
        (pod.node_id, device)
        for job in snapshot.jobs
        for pod in job.pods
        if pod.node_id is not None
        for device in pod.devices
    }
    free = {node.id: [str(d) for d in node.devices if (node.id, str(d)) not in taken] for node in snapshot.nodes}

    def arrived(pod: PodView) -> PodView:
        if pod.state is not PodState.RESERVED:
            return pod
        whole = tuple(free[pod.node_id or ""].pop(0) for _ in range(pod.request.gpus))
        return replace(pod, state=PodState.RUNNING, devices=whole or pod.devices)

    return _with_pods(snapshot, arrived)


def _with_pods(snapshot: Snapshot, change: Callable[[PodView], PodView]) -> Snapshot:
    jobs = [replace(job, pods=tuple(change(pod) for pod in job.pods)) for job in snapshot.jobs]
    return replace(snapshot, jobs=jobs)


class World:
    """A cluster that does at once what a cycle decides; the evicted wait again."""

    def __init__(self, nodes: list[NodeView], queues: list[QueueView], policy: Policy = Policy()) -> None:  # noqa: B008
        self.policy = policy
        self.snapshot = Snapshot(nodes, queues, [])
        self.decisions: list[Decision] = []
        self.evicted: list[str] = []
        self.over: set[str] = set()

    def submit(self, *jobs: JobView) -> None:
        """Let jobs wait."""
        self.snapshot = replace(self.snapshot, jobs=[*self.snapshot.jobs, *jobs])

    def delete(self, *names: str) -> None:
        """Take jobs out, whatever they do."""
        assert {job.id for job in self.snapshot.jobs} >= set(names)
        self.snapshot = replace(self.snapshot, jobs=[job for job in self.snapshot.jobs if job.id not in names])

    def cycle(self) -> bool:
        """Run one cycle and return whether anything moved."""
        before = self.snapshot
        self.decisions = run_cycle(self.snapshot, self.policy)
        self.evicted += [decision.pod_id for decision in self.decisions if isinstance(decision, Stop)]
        self.snapshot = self.happen(told_to(self.decisions))
        self.snapshot = replace(self.snapshot, jobs=[_aged(job) for job in self.snapshot.jobs])
        return self.snapshot != before

    def happen(self, told: dict[str, list[Decision]]) -> Snapshot:
        """Return what comes of what pods were told."""
        return apply(self.snapshot, [decision for decisions in told.values() for decision in decisions])

    def pass_time(self, dice: random.Random) -> None:
        """Let the time of what runs go by, a minute, in which some use none of their GPUs."""

        def older(job: JobView) -> JobView:
            if not any(pod.state in ON_NODES for pod in job.pods):
                return replace(job, running_for_s=None, idle_for_s=None)
            is_idle = job.id in self.over or dice.random() < 0.7
            idle_for_s = (job.idle_for_s or 0) + CYCLE_S if is_idle else 0
            return replace(job, running_for_s=(job.running_for_s or 0) + CYCLE_S, idle_for_s=idle_for_s)

        self.snapshot = replace(self.snapshot, jobs=[older(job) for job in self.snapshot.jobs])

    def settle(self, *, at_most: int = 20) -> int:
        """Run cycles until nothing moves any more; return how many it took."""
        for number in range(at_most):
            if not self.cycle():
                return number
        raise AssertionError(f"still moving after {at_most} cycles")

    def running(self) -> set[str]:
        """Return the jobs of which a pod runs."""
        return self._with_any(PodState.RUNNING)

    def waiting(self) -> set[str]:
        """Return the jobs of which a pod waits."""
        return self._with_any(PodState.PENDING)

    def _with_any(self, state: PodState) -> set[str]:
        return {job.id for job in self.snapshot.jobs for pod in job.pods if pod.state is state}

    def node_of(self, name: str) -> str | None:
        """Return the node of a job's first pod."""
        return next(job.pods[0].node_id for job in self.snapshot.jobs if job.id == name)

    def allocated(self) -> dict[str, float]:
        """Return the GPUs that each queue holds."""
        kinds = {node.id: node.geometry or node.device_mib for node in self.snapshot.nodes}
        held = dict.fromkeys((queue.id for queue in self.snapshot.queues), 0.0)
        for job in self.snapshot.jobs:
            for pod in job.pods:
                if pod.state is PodState.RUNNING:
                    held[job.queue_id] += pod.request.charge_milli(kinds[pod.node_id or ""]) / 1000
        return held


def _aged(job: JobView) -> JobView:
    """Return a job with the time for which it has been half a gang, a minute a cycle."""
    return replace(job, stale_for_s=(job.stale_for_s or 0) + CYCLE_S if is_half_up(job) else None)


class Flaky(World):
    """A cluster where what was told is lost now and then, stops take their time, and nodes fail and come back.

    What still occupies the place that a pod was moved away from is a job of its own, which ends by itself.
    """

    def __init__(self, dice: random.Random, nodes: list[NodeView], queues: list[QueueView]) -> None:
        super().__init__(nodes, queues)
        self.nodes = list(nodes)
        self.dice = dice
        self.loss = 0.1
        self.slowness = 0.4
        self.cycles_to_stop: dict[str, int] = {}
        self.lost: set[str] = set()

    def happen(self, told: dict[str, list[Decision]]) -> Snapshot:
        """Lose what bad luck loses; who must leave does so over some cycles."""
        self.lost.clear()
        self._let_stop()
        ghosts: list[JobView] = []
        jobs = [
            replace(job, pods=tuple(self._next(job, pod, told.get(pod.id, []), ghosts) for pod in job.pods))
            for job in self.snapshot.jobs
        ]
        return replace(self.snapshot, jobs=self._without_what_is_over(jobs) + ghosts)

    def _without_what_is_over(self, jobs: Iterable[JobView]) -> list[JobView]:
        """Return the jobs without what waits of those that were stopped for good."""
        left = [
            replace(job, pods=tuple(pod for pod in job.pods if job.id not in self.over or pod.state in ON_NODES))
            for job in jobs
        ]
        return [job for job in left if job.pods and not is_over(job)]

    def _let_stop(self) -> None:
        self.cycles_to_stop = {name: left - 1 for name, left in self.cycles_to_stop.items()}

    def _next(self, job: JobView, pod: PodView, told: list[Decision], ghosts: list[JobView]) -> PodView:
        if pod.state in {PodState.TERMINATING, PodState.STUCK_TERMINATING}:
            if self.cycles_to_stop.get(pod.id, 0) > 0:
                return replace(pod, state=PodState.STUCK_TERMINATING) if self.dice.random() < 0.1 else pod
            return follow(pod, [Stop(job.id, pod.id, None, StopCode.STALE, "")])
        if not told:
            return pod
        if self.dice.random() < self.loss or (isinstance(told[-1], Start) and self._is_leaving(pod)):
            self.lost.add(job.id)
            return pod
        after = follow(pod, told)
        self.over |= ended_by(told)
        if isinstance(told[0], Stop) and self.dice.random() < self.slowness:
            terminating = replace(pod, state=PodState.TERMINATING)
            if after.state is PodState.PENDING:
                self.cycles_to_stop[pod.id] = self.dice.randint(1, 3)
                return terminating
            name = ghost_of(pod)
            self.cycles_to_stop[name] = self.dice.randint(1, 3)
            ghosts.append(replace(job, id=name, pods=(replace(terminating, id=name),), rank=(*job.rank, name)))
        return after

    def _is_leaving(self, pod: PodView) -> bool:
        """Return whether the pod is still being stopped at the place that it was moved from."""
        return any(job.id == ghost_of(pod) for job in self.snapshot.jobs)

    def fail(self, name: str, *, is_known: bool, is_gone: bool) -> None:
        """Let a node fail: what ran there waits again, or, while nobody knows, seems to run on."""
        nodes = [replace(node, is_ready=False) if node.id == name else node for node in self.snapshot.nodes]
        if is_known:
            self.snapshot = _with_pods(self.snapshot, lambda pod: _without(pod, name))
            self.snapshot = replace(self.snapshot, jobs=self._without_what_is_over(self.snapshot.jobs))
            nodes = [node for node in nodes if not (is_gone and node.id == name)]
        self.snapshot = replace(self.snapshot, nodes=nodes)

    def drain(self, name: str) -> None:
        """Let a node take nothing new."""
        nodes = [replace(node, is_drained=True) if node.id == name else node for node in self.snapshot.nodes]
        self.snapshot = replace(self.snapshot, nodes=nodes)

    def repair(self) -> None:
        """Let all nodes come back."""
        self.snapshot = replace(self.snapshot, nodes=self.nodes)


def ghost_of(pod: PodView) -> str:
    """Return the name under which a pod that was moved away still occupies its old place."""
    return f"{pod.id}~"


def is_ghost(job: JobView) -> bool:
    """Return whether a job is only what is left of a pod that was moved."""
    return job.id.endswith("~")


def is_over(job: JobView) -> bool:
    """Return whether what was left of a moved pod is gone."""
    return is_ghost(job) and job.pods[0].state is PodState.PENDING


def _without(pod: PodView, node_id: str) -> PodView:
    if pod.node_id != node_id or pod.state is PodState.RESERVED:
        return pod
    return replace(pod, state=PodState.PENDING, node_id=None, devices=())
