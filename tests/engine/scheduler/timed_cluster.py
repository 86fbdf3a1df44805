"""What then happens: whole cycles over a cluster whose jobs have true lengths. The oracle for forecasts."""

from dataclasses import replace

from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import Start, Stop
from scheduler.engine.run_times import RunTimes, each_once
from scheduler.engine.snapshot import NEARLINE, Snapshot
from tests.engine.scheduler.world import apply, ended_by


class Cluster:
    """A cluster in which whole cycles run, one snapshot after the other, and each end is an event of its own."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.now_s = 0.0
        self.rank = 0
        self.lengths: dict[str, float] = {}
        self.ends: dict[str, float] = {}
        self.started: dict[str, tuple[float, str]] = {}
        self.stopped: list[tuple[str, str]] = []

    def run_times(self) -> dict[str, RunTimes]:
        """Return what is known of how long each job goes on."""
        return {
            name: RunTimes(
                each_once(length), ran_s=length - (self.ends[name] - self.now_s) if name in self.ends else 0.0
            )
            for name, length in self.lengths.items()
        }

    def submit(self, job, length: float) -> None:
        """Let a job wait, as the youngest."""
        self.lengths[job.id] = length
        self.snapshot = replace(self.snapshot, jobs=[*self.snapshot.jobs, replace(job, rank=(self.rank,))])
        self.rank += 1
        self.settle()

    def pass_to(self, moment_s: float) -> None:
        """Let time pass, with all ends until then."""
        while self.ends and min(self.ends.values()) <= moment_s:
            self.now_s = min(self.ends.values())
            over = {name for name, end_s in self.ends.items() if end_s == self.now_s}
            for name in over:
                del self.ends[name], self.lengths[name]
            self.snapshot = replace(self.snapshot, jobs=[job for job in self.snapshot.jobs if job.id not in over])
            self.settle()
        self.now_s = max(self.now_s, moment_s)

    def settle(self) -> None:
        """Run cycles until nothing moves."""
        for _ in range(20):
            decisions = run_cycle(self.snapshot, NEARLINE)
            assert not ended_by(decisions)
            after = apply(self.snapshot, decisions)
            if after == self.snapshot:
                return
            stops = {decision.job_id: decision.for_job for decision in decisions if isinstance(decision, Stop)}
            self.stopped += list(stops.items())
            for name in stops:
                self.ends.pop(name, None)
            for decision in decisions:
                if isinstance(decision, Start):
                    self.ends[decision.job_id] = self.now_s + self.lengths[decision.job_id]
                    self.started.setdefault(decision.job_id, (self.now_s, decision.node_id))
            starts = {decision.job_id for decision in decisions if isinstance(decision, Start)}
            jobs = [self._told(job, is_stopped=job.id in stops, has_started=job.id in starts) for job in after.jobs]
            self.snapshot = replace(after, jobs=jobs)
        raise AssertionError("it does not come to rest")

    def _told(self, job, *, is_stopped: bool, has_started: bool):
        if is_stopped:
            job = replace(job, evictions=job.evictions + 1, saved_at=None)
        return replace(job, saved_at=self.now_s) if has_started else job
