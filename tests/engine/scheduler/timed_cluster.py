"""What then happens: whole cycles over a cluster whose jobs have true lengths. The oracle for forecasts."""

import math
from collections import Counter
from dataclasses import replace

from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import Stop
from scheduler.engine.rules import reservation
from scheduler.engine.run_times import RunTimes, each_once
from scheduler.engine.snapshot import NEARLINE, JobView, PodState, Policy, Snapshot
from tests.engine.scheduler.world import apply, ended_by


class Cluster:
    """A cluster in which whole cycles run, one snapshot after the other, and each end is an event of its own.

    `started` says when and where jobs first started, `stopped` for whom who was stopped, `since` and `waits` since when
    which jobs run and wait. The clock begins at 0.
    """

    def __init__(self, snapshot: Snapshot, policy: Policy = NEARLINE) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.now_s = 0.0
        self.rank = 0
        self.lengths: dict[str, float] = {}
        self.since: dict[str, float] = {}
        self.waits: dict[str, float] = {}
        self.started: dict[str, tuple[float, tuple[str, ...]]] = {}
        self.stopped: list[tuple[str, str]] = []
        rules = [(queue, work) for queue in snapshot.queues for work in (queue.training, queue.interactive)]
        ages_s = {work.run_at_most_s for _, work in rules} | {queue.preempt_min_runtime_s for queue, _ in rules}
        ages_s |= {queue.reclaim_min_runtime_s for queue, _ in rules}
        self.ages_s = sorted(filter(None, ages_s))
        self.smallest_node = reservation.smallest_node(snapshot.nodes)

    @property
    def ends(self) -> dict[str, float]:
        """Return when the jobs end that run, if nobody stops them."""
        return {name: since_s + self.lengths[name] for name, since_s in self.since.items()}

    def run_times(self) -> dict[str, RunTimes]:
        """Return what is known of how long each job goes on."""
        return {
            name: RunTimes(each_once(length), ran_s=self.now_s - self.since.get(name, self.now_s))
            for name, length in self.lengths.items()
        }

    def submit(self, job, length: float) -> None:
        """Let a job wait, as the youngest."""
        self.lengths[job.id] = length
        self.waits[job.id] = self.now_s
        self.snapshot = replace(self.snapshot, jobs=[*self.snapshot.jobs, replace(job, rank=(self.rank,))])
        self.rank += 1
        self.settle()

    def next_moment(self) -> float | None:
        """Return when something may happen next; None: nothing does any more."""
        ages = [since_s + age_s for since_s in self.since.values() for age_s in self.ages_s]
        reservations = [self._next_reservation(job) for job in self.snapshot.jobs if job.id in self.waits]
        moments = (*self.ends.values(), *ages, *reservations)
        return min((each for each in moments if self.now_s < each < math.inf), default=None)

    def _next_reservation(self, job: JobView) -> float:
        """Return when nodes begin or cease to be reserved for a job that waits."""
        if job.waited_s is None:
            return math.inf
        _, wait_s = self.policy.wait_span(job.waited_s)
        return -(-(self.waits[job.id] + wait_s) // 60) * 60

    def pass_to(self, moment_s: float) -> None:
        """Let time pass, with all that happens until then."""
        while (due_s := self.next_moment()) is not None and due_s <= moment_s:
            self.now_s = due_s
            self._drop({name for name, end_s in self.ends.items() if end_s == due_s})
            self.settle()
        self.now_s = max(self.now_s, moment_s)

    def settle(self) -> None:
        """Run cycles until nothing moves."""
        for _ in range(20):
            self.snapshot = replace(self.snapshot, jobs=[self._aged(job) for job in self.snapshot.jobs])
            decisions = run_cycle(self.snapshot, self.policy)
            after = apply(self.snapshot, decisions)
            if after == self.snapshot:
                return
            over = ended_by(decisions)
            self._drop(over)
            stops = {each.job_id: each.for_job for each in decisions if isinstance(each, Stop)}
            self.stopped += [(name, claimant) for name, claimant in stops.items() if name not in over]
            self.snapshot = replace(after, jobs=[self._noted(job) for job in after.jobs])
        raise AssertionError("it does not come to rest")

    def _drop(self, names: set[str]) -> None:
        for name in names:
            self.since.pop(name, None)
            self.waits.pop(name, None)
            del self.lengths[name]
        self.snapshot = replace(self.snapshot, jobs=[job for job in self.snapshot.jobs if job.id not in names])

    def _noted(self, job: JobView) -> JobView:
        """Return a job as it is known to be after a cycle: it has just started, or was stopped, or neither."""
        running = [pod for pod in job.pods if pod.state is PodState.RUNNING]
        counts = Counter(pod.pod_set for pod in running)
        if all(counts[each.name] >= each.min_available for each in job.structure.children):
            if job.id not in self.since:
                self.since[job.id] = self.now_s
                del self.waits[job.id]
                nodes = tuple(dict.fromkeys(str(pod.node_id) for pod in running))
                self.started.setdefault(job.id, (self.now_s, nodes))
                job = replace(job, saved_at=self.now_s, waited_s=None)
        elif (since_s := self.since.pop(job.id, None)) is not None:
            self.waits[job.id] = self.now_s
            # Who has to go at the moment of its start has not started.
            if since_s == self.now_s == self.started[job.id][0]:
                del self.started[job.id]
            job = replace(job, evictions=job.evictions + 1, saved_at=None, running_for_s=None)
        return job

    def _aged(self, job: JobView) -> JobView:
        if job.id in self.waits and reservation.may_wait_for_nodes(job, self.smallest_node):
            since_s = self.waits[job.id]
            waited_s = max(0.0, self.now_s // 60 * 60 - since_s) // 60 * 60
            return replace(job, waited_s=waited_s, waits_since=since_s)
        if job.id not in self.since or not self.ages_s:
            return job
        return replace(job, running_for_s=self.now_s - self.since[job.id])
