"""A run in memory: the planner's decisions applied all at once or not at all, and jobs that a script lets happen.

Stands for the database and for compute in tests of the planner. `Job.success` counts how often a job's command ended
well, which is what "exactly once" is about.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from flows.engine import planner
from flows.engine.graph import Graph
from flows.engine.planner import AttemptNow, DataNow, InputsNow, JobNow, Snapshot, StepNow, TemplateNow
from flows.engine.states import STEP_ENDS, STEP_STATES, AttemptState, FailureKind, RunState, StepState
from flows.engine.transitions import (
    Bring,
    Cancel,
    End,
    Finish,
    Observe,
    Remind,
    Requeue,
    Reset,
    Settle,
    Start,
    Submit,
    Supersede,
    Transition,
)

START = datetime(2026, 11, 21, tzinfo=UTC)


@dataclass
class Job:
    """A job as compute keeps it. One that is gated waits for its data, and cannot be placed."""

    now: JobNow = JobNow()
    is_gated: bool = False


@dataclass
class World:
    """A run, its jobs, and the time."""

    graph: Graph
    steps: dict[str, StepNow]
    templates: dict[str, TemplateNow]
    now: datetime = START
    state: RunState = RunState.RUNNING
    is_cancelled: bool = False
    jobs: dict[str, Job] = field(default_factory=dict)
    attempts: dict[str, AttemptNow] = field(default_factory=dict)
    successes: Counter[str] = field(default_factory=Counter)
    results: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    whys: dict[str, str] = field(default_factory=dict)
    data: dict[tuple[str, str], DataNow] = field(default_factory=dict)

    def snapshot(self) -> Snapshot:
        """Load the run as `services.snapshots` does."""
        live, ended = [], {}
        for step in self.steps.values():
            if step.state in STEP_ENDS:
                ended.setdefault(step.key, Counter())[step.state] += 1
            else:
                live.append(replace(step, attempt=self._attempt_of(step)))
        return Snapshot(
            graph=self.graph,
            steps=tuple(live),
            ended=ended,
            results=self.results,
            parameters={},
            templates=self.templates,
            data=self.data,
            is_cancelled=self.is_cancelled,
        )

    def plan(self) -> list[Transition]:
        """Plan and change nothing."""
        return planner.plan(self.snapshot(), self.now)

    def look(self, *, dies: bool = False) -> bool:
        """Plan and, unless the worker dies before its transaction commits, apply; say whether anything changed."""
        if self.state is not RunState.RUNNING:
            return False
        snapshot = self.snapshot()
        transitions = planner.plan(snapshot, self.now)
        assert self._plan_narrowed(snapshot) == transitions
        if dies:
            return False
        for transition in transitions:
            self._apply(transition)
        return any(not isinstance(transition, Remind | Bring) for transition in transitions)

    def _plan_narrowed(self, snapshot: Snapshot) -> list[Transition]:
        """Plan with as little as `workers.advance` loads."""
        narrowed = self._narrowed(snapshot, is_further=False)
        transitions = planner.plan(narrowed, self.now)
        if not planner.goes_further(narrowed, transitions):
            return transitions
        return planner.plan(self._narrowed(snapshot, is_further=True), self.now)

    def _narrowed(self, snapshot: Snapshot, *, is_further: bool) -> Snapshot:
        """Leave out what a plan need not see, as `workers.snapshots` does."""
        if self.is_cancelled:
            return snapshot
        moving = [step for step in snapshot.steps if self._moves(step)]
        pending = [step for step in snapshot.steps if step.state is StepState.PENDING]
        live = Counter(step.key for step in snapshot.steps)
        ending = Counter(step.key for step in pending) if is_further else {}
        reached = planner.within_reach(self.graph, live, Counter(step.key for step in moving), ending)
        begins = Counter(step.key for step in pending)
        most = {} if is_further else planner.most_to_begin(self.graph, live, begins, snapshot.ended)
        read = [step for key in reached for step in [each for each in pending if each.key == key][: most.get(key)]]
        steps = [step for step in snapshot.steps if step in moving or step in read]
        unread = begins - Counter(step.key for step in read)
        idle = live - Counter(step.key for step in steps)
        return replace(snapshot, steps=tuple(steps), idle=idle, unread=unread)

    def _moves(self, step: StepNow) -> bool:
        if step.state is StepState.BACKOFF:
            return step.not_before is None or step.not_before <= self.now
        attempt = step.attempt
        if attempt is None or attempt.job is None:
            return attempt is not None
        is_placed = attempt.job.is_placed and attempt.job.end is None
        return not (attempt.state is AttemptState.RUNNING and is_placed)

    def settle(self) -> None:
        """Look until nothing changes."""
        for _ in range(1000):
            if not self.look():
                return
        raise AssertionError("the planner never comes to rest")

    # --- what compute does

    def waiting(self) -> list[str]:
        waiting = {name: job for name, job in self.jobs.items() if not job.now.is_placed and job.now.end is None}
        return [name for name, job in waiting.items() if not job.is_gated]

    def running(self) -> list[str]:
        return [name for name, job in self.jobs.items() if job.now.is_placed and job.now.end is None]

    def place(self, name: str) -> None:
        self.jobs[name].now = JobNow(is_placed=True)

    def evict(self, name: str) -> None:
        self.jobs[name].now = JobNow()

    def end(self, name: str, failure: FailureKind | None = None) -> None:
        state = AttemptState.FAILED if failure else AttemptState.SUCCEEDED
        self.jobs[name].now = JobNow(end=state, failure=failure, reason="it failed" if failure else "")
        if failure is None:
            self.successes[self.attempts[name].id.rpartition("/")[0]] += 1

    # --- what services.apply does

    def _attempt_of(self, step: StepNow) -> AttemptNow | None:
        found = self.attempts.get(f"{step.id}/{step.attempts}")
        if found is None or step.state in {StepState.PENDING, StepState.BACKOFF}:
            return None
        job = self.jobs.get(found.id)
        return replace(found, job=job.now if job else None)

    def _apply(self, transition) -> None:  # noqa: C901 (one case for each kind of transition)
        match transition:
            case Start():
                self._start(transition)
            case Submit(step_id, attempt_id, _) | Requeue(step_id, attempt_id, _, _):
                self.jobs[attempt_id].is_gated = False
                self.attempts[attempt_id] = replace(
                    self.attempts[attempt_id], state=AttemptState.QUEUED, since=self.now
                )
                self._move(step_id, StepState.QUEUED)
            case Observe(step_id, attempt_id, _):
                self.attempts[attempt_id] = replace(self.attempts[attempt_id], state=AttemptState.RUNNING)
                self._move(step_id, StepState.RUNNING)
            case Supersede(_, attempt_id, _, start):
                if self.jobs[attempt_id].now.is_placed:
                    return
                self.jobs[attempt_id].now = JobNow(end=AttemptState.CANCELLED)
                self._start(start)
            case End(_, attempt_id, state, _, _):
                self.attempts[attempt_id] = replace(self.attempts[attempt_id], state=state)
            case Settle(step_id, state, reason, failures, not_before, _):
                self._move(step_id, state)
                self.steps[step_id] = replace(self.steps[step_id], failures=failures, not_before=not_before)
                self.reasons[step_id] = reason
            case Cancel(attempt_id, _):
                job = self.jobs[attempt_id]
                if job.now.is_placed:
                    job.now = replace(job.now, is_stopping=True)
                else:
                    job.now = JobNow(end=AttemptState.CANCELLED)
            case Finish(state, _):
                assert all(step.state in STEP_ENDS for step in self.steps.values())
                self.state = state
            case Reset() | Remind() | Bring():
                pass

    def _start(self, start: Start) -> None:
        attempt_id = f"{start.step_id}/{start.number}"
        self.whys[start.step_id] = start.why
        assert attempt_id not in self.attempts, "an attempt's number is used once"
        state = AttemptState.PREPARING if start.prepares else AttemptState.QUEUED
        self.attempts[attempt_id] = AttemptNow(
            attempt_id, start.number, state, start.choice, self.now, inputs=InputsNow(is_ready=True)
        )
        assert attempt_id not in self.jobs
        self.jobs[attempt_id] = Job(is_gated=start.prepares)
        self._move(start.step_id, StepState.PREPARING if start.prepares else StepState.QUEUED)
        self.steps[start.step_id] = replace(
            self.steps[start.step_id], attempts=start.number, choice=start.choice, tried=start.tried
        )

    def _move(self, step_id: str, state: StepState) -> None:
        step = self.steps[step_id]
        STEP_STATES.check(step.state, state)
        self.steps[step_id] = replace(step, state=state)

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
