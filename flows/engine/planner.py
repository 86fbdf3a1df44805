"""What a run should do now: a pure function from what is to what changes.

`services.advance` loads a `Snapshot`, asks `plan`, and writes the transitions in one transaction. Nothing is remembered
between two calls, so a crash anywhere between them loses nothing: the next call plans the same again.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from core.units import format_duration
from flows.engine import expressions
from flows.engine.expressions import Results, Value
from flows.engine.graph import Graph, Node
from flows.engine.states import STEP_ENDS, AttemptState, FailureKind, RunState, StepState
from flows.engine.transitions import (
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
    Tried,
)

_POLL = timedelta(seconds=2)
_INPUT_POLL = timedelta(seconds=5)
_LONGEST_BACKOFF_S = 60.0
_NAMED = 3


@dataclass(frozen=True)
class TemplateNow:
    """A template as it is now. `obstacle` is why nothing can start there; `is_unknown`: nothing can even wait there.

    `has_sites`: its jobs read cached commits.
    """

    obstacle: str = ""
    is_unknown: bool = False
    is_simulated: bool = False
    has_sites: bool = True


@dataclass(frozen=True)
class JobNow:
    """An attempt's job: still waiting, placed on a node, or ended. `never_fits`: why it can wait for ever."""

    is_placed: bool = False
    end: AttemptState | None = None
    failure: FailureKind | None = None
    reason: str = ""
    never_fits: str = ""
    is_stopping: bool = False


@dataclass(frozen=True)
class InputsNow:
    """The datasets of an attempt that is preparing: `is_ready`, or failed because of `error`, or neither yet."""

    is_ready: bool = False
    error: str = ""


@dataclass(frozen=True)
class AttemptNow:
    """A live attempt about which there may be news. `is_harvested`: all it recorded in its log is in the database."""

    id: str
    number: int
    state: AttemptState
    choice: int
    since: datetime
    inputs: InputsNow = InputsNow()
    job: JobNow | None = None
    is_harvested: bool = True


@dataclass(frozen=True)
class StepNow:
    """A step that has not ended. `attempt` None while it has one: there is no news about it."""

    id: str
    key: str
    index: int
    state: StepState
    attempts: int = 0
    choice: int = 0
    failures: Mapping[FailureKind, int] = field(default_factory=dict)
    tried: tuple[Tried, ...] = ()
    not_before: datetime | None = None
    attempt: AttemptNow | None = None


@dataclass(frozen=True)
class Snapshot:
    """All that a plan looks at. `ended` counts, for each step of the spec, how its instances ended.

    `steps` may leave out instances that have not ended and that this plan can do nothing about (see `within_reach`);
    `idle` counts those. `to_reset` are the ended steps that a retry opens again (as if they were pending); they are in
    `steps` too.
    """

    graph: Graph
    steps: tuple[StepNow, ...]
    ended: Mapping[str, Mapping[StepState, int]]
    results: Results
    parameters: Mapping[str, Value]
    templates: Mapping[str, TemplateNow]
    is_cancelled: bool = False
    to_reset: tuple[str, ...] = ()
    is_storing: bool = False
    idle: Mapping[str, int] = field(default_factory=dict)


def within_reach(
    graph: Graph, live: Mapping[str, int], moving: Mapping[str, int], pending: Mapping[str, int]
) -> frozenset[str]:
    """Return the steps whose pending instances a plan can start or skip; all others need not be loaded for it.

    That takes parents of which nothing stays as it is: of their `live` instances all are `moving` (there is news about
    them), or pending and themselves within reach. So one end among a thousand steps costs no look at the others.
    """
    reached: set[str] = set()
    may_end: dict[str, bool] = {}
    for node in graph.nodes:
        if all(may_end[parent] for parent in node.after):
            reached.add(node.key)
        waiting = pending.get(node.key, 0) if node.key in reached else 0
        may_end[node.key] = moving.get(node.key, 0) + waiting >= live.get(node.key, 0)
    return frozenset(reached)


def plan(snapshot: Snapshot, now: datetime) -> list[Transition]:
    """Decide what changes at this moment. Same input, same output."""
    planner = _Planner(snapshot, now)
    planner.run()
    return planner.transitions


class _Planner:
    """Collects transitions, keeping count of how steps end, so that one call follows a chain of consequences."""

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self._now = now
        self._snapshot = snapshot
        self._graph = snapshot.graph
        self._templates = snapshot.templates
        self._ended = {key: Counter(snapshot.ended.get(key, {})) for key in snapshot.graph.by_key}
        self._open = Counter(step.key for step in snapshot.steps) + Counter(snapshot.idle)
        self._waiting: dict[str, list[StepNow]] = {key: [] for key in snapshot.graph.by_key}
        self._is_storing = snapshot.is_storing
        self.transitions: list[Transition] = []

    def run(self) -> None:
        self.transitions.extend(Reset(step_id) for step_id in self._snapshot.to_reset)
        for step in self._snapshot.steps:
            self._look_at(step)
        for node in self._graph.nodes:
            if self._waiting[node.key]:
                self._consider(node, self._waiting[node.key])
        if sum(self._open.values()) == 0 and not self._is_storing:
            self.transitions.append(self._finish())

    # --- steps that have an attempt, and those between two

    def _look_at(self, step: StepNow) -> None:
        if step.state is StepState.PENDING:
            if self._snapshot.is_cancelled:
                self._settle(step, StepState.CANCELLED, "The run was cancelled.")
            else:
                self._waiting[step.key].append(step)
        elif step.state is StepState.BACKOFF:
            if self._snapshot.is_cancelled:
                self._settle(step, StepState.CANCELLED, "The run was cancelled.")
            elif step.not_before is None or step.not_before <= self._now:
                self._start(self._graph.by_key[step.key], step)
        elif step.attempt is not None:
            self._follow(self._graph.by_key[step.key], step, step.attempt)

    def _follow(self, node: Node, step: StepNow, attempt: AttemptNow) -> None:
        if attempt.state is AttemptState.PREPARING:
            self._follow_preparing(node, step, attempt)
        elif attempt.job is None:
            self._fail(node, step, attempt, FailureKind.INFRASTRUCTURE, "The job of this attempt is gone.")
        elif attempt.job.end is not None:
            self._follow_end(node, step, attempt, attempt.job)
        elif self._snapshot.is_cancelled:
            if not attempt.job.is_stopping:
                self.transitions.append(Cancel(attempt.id))
        elif attempt.state is AttemptState.QUEUED:
            if attempt.job.is_placed:
                self.transitions.append(Observe(step.id, attempt.id, node.choices[attempt.choice].template))
            else:
                self._follow_waiting(node, step, attempt, attempt.job)
        elif not attempt.job.is_placed:
            reminder = self._reminder(node, attempt, self._now)
            self.transitions.append(Requeue(step.id, attempt.id, node.choices[attempt.choice].template, reminder))

    def _follow_preparing(self, node: Node, step: StepNow, attempt: AttemptNow) -> None:
        if self._snapshot.is_cancelled:
            self.transitions.append(End(step.id, attempt.id, AttemptState.CANCELLED, None, "The run was cancelled."))
            self._settle(step, StepState.CANCELLED, "The run was cancelled.")
        elif self._templates[node.choices[attempt.choice].template].is_unknown:
            gone = f"The template {node.choices[attempt.choice].template} does not exist any more."
            self._fail(node, step, attempt, FailureKind.INFRASTRUCTURE, gone)
        elif attempt.inputs.error:
            self._fail(node, step, attempt, FailureKind.INFRASTRUCTURE, attempt.inputs.error)
        elif attempt.inputs.is_ready:
            self.transitions.append(Submit(step.id, attempt.id, self._reminder(node, attempt, self._now)))
        else:
            self.transitions.append(Remind(attempt.id, self._now + _INPUT_POLL))

    def _follow_end(self, node: Node, step: StepNow, attempt: AttemptNow, job: JobNow) -> None:
        if not attempt.is_harvested:
            self.transitions.append(Remind(attempt.id, self._now + _POLL))
        elif job.end is AttemptState.SUCCEEDED:
            self.transitions.append(End(step.id, attempt.id, AttemptState.SUCCEEDED, None, ""))
            # Its outputs are kept from now on; the run ends when that is done.
            is_simulated = self._templates[node.choices[attempt.choice].template].is_simulated
            self._is_storing = self._is_storing or not is_simulated
            self._settle(step, StepState.SUCCEEDED, "", chosen=attempt.id)
        elif job.end is AttemptState.CANCELLED:
            reason = "The run was cancelled." if self._snapshot.is_cancelled else job.reason or "The job was cancelled."
            self.transitions.append(End(step.id, attempt.id, AttemptState.CANCELLED, None, reason))
            self._settle(step, StepState.CANCELLED, reason, chosen=attempt.id)
        else:
            self._fail(node, step, attempt, job.failure or FailureKind.USER_ERROR, job.reason)

    def _follow_waiting(self, node: Node, step: StepNow, attempt: AttemptNow, job: JobNow) -> None:
        """Stay with a template within its budget; then, or where it cannot work at all, try the next one."""
        choice = node.choices[attempt.choice]
        now_there = self._templates[choice.template]
        waited = self._now - attempt.since
        why = ""
        if now_there.obstacle:
            why = now_there.obstacle
        elif job.never_fits:
            why = f"can never run it: {job.never_fits}"
        elif waited >= timedelta(seconds=choice.wait_s):
            why = f"could not start within {format_duration(choice.wait_s)}" + (
                f" ({job.reason})" if job.reason else ""
            )
        following = self._next_usable(node, attempt.choice)
        if why and following is not None:
            tried = (*step.tried, Tried(choice.template, waited.total_seconds(), why))
            tried += self._skipped(node, attempt.choice + 1, following)
            start = self._start_at(node, step, following, tried)
            self.transitions.append(Supersede(step.id, attempt.id, why, start))
        else:
            self.transitions.append(Remind(attempt.id, self._reminder(node, attempt, attempt.since)))

    def _reminder(self, node: Node, attempt: AttemptNow, since: datetime) -> datetime | None:
        """Return when to look again at a job that waits; None where there is nothing else to try."""
        if attempt.choice + 1 >= len(node.choices):
            return None
        deadline = since + timedelta(seconds=node.choices[attempt.choice].wait_s)
        poll = self._now + _POLL
        return min(deadline, poll) if deadline > self._now else poll

    def _fail(self, node: Node, step: StepNow, attempt: AttemptNow, kind: FailureKind, reason: str) -> None:
        self.transitions.append(End(step.id, attempt.id, AttemptState.FAILED, kind, reason))
        failures = {**step.failures, kind: step.failures.get(kind, 0) + 1}
        if self._snapshot.is_cancelled or failures[kind] > node.budgets.get(kind, 0):
            self._settle(step, StepState.FAILED, reason, failures=failures, chosen=attempt.id)
            return
        delay_s = min(2.0 ** (failures[kind] - 1), _LONGEST_BACKOFF_S)
        which = f"Try {failures[kind] + 1} of {node.budgets[kind] + 1}"
        again = f"{reason.removesuffix('.')}. {which} starts in {format_duration(delay_s)}."
        not_before = self._now + timedelta(seconds=delay_s)
        self._settle(step, StepState.BACKOFF, again, failures=failures, not_before=not_before)

    # --- steps that wait for their parents

    def _consider(self, node: Node, steps: list[StepNow]) -> None:
        if any(self._open[parent] for parent in node.after):
            return
        for parent in node.after:
            bad = [
                state
                for state in (StepState.FAILED, StepState.CANCELLED, StepState.SKIPPED)
                if self._ended[parent][state]
            ]
            if bad:
                for step in steps:
                    self._settle(step, StepState.SKIPPED, f"'{parent}' {_WORDS[bad[0]]}.")
                return
        if node.condition is not None:
            verdict = expressions.evaluate(node.condition, self._snapshot.results, self._snapshot.parameters)
            if not verdict.holds:
                for step in steps:
                    self._settle(step, StepState.SKIPPED, f"Its condition does not hold: {verdict.why}.")
                return
        for step in steps:
            self._start(node, step)

    def _start(self, node: Node, step: StepNow) -> None:
        """Begin an attempt at the first template that can work, from the step's own on, else where it can wait."""
        chosen = self._next_usable(node, step.choice - 1)
        if chosen is None:
            known = [
                number
                for number, choice in enumerate(node.choices)
                if number >= step.choice and not self._templates[choice.template].is_unknown
            ]
            chosen = known[-1] if known else None
        tried = step.tried + self._skipped(node, step.choice, len(node.choices) if chosen is None else chosen)
        if chosen is None:
            reasons = "; ".join(f"{item.template} {item.why}" for item in tried)
            self._settle(step, StepState.FAILED, f"None of its templates can run it: {reasons}.")
        else:
            self.transitions.append(self._start_at(node, step, chosen, tried))

    def _start_at(self, node: Node, step: StepNow, choice: int, tried: tuple[Tried, ...]) -> Start:
        template = node.choices[choice].template
        facts = self._templates[template]
        why = f"{tried[-1].template} {tried[-1].why}." if tried else "It is the first choice."
        if facts.obstacle:
            why += f" {template} {facts.obstacle}, but nothing else is left to try."
        prepares = node.has_data and (facts.has_sites or not facts.is_simulated)
        if node.has_data and not prepares:
            why += " Its nodes are simulated, so no data is staged."
        number = step.attempts + 1
        begun = AttemptNow("", number, AttemptState.QUEUED, choice, self._now)
        return Start(
            step_id=step.id,
            number=number,
            choice=choice,
            template=template,
            tried=tried,
            why=why,
            prepares=prepares,
            remind_at=self._now + _INPUT_POLL if prepares else self._reminder(node, begun, self._now),
        )

    def _next_usable(self, node: Node, after: int) -> int | None:
        for number in range(after + 1, len(node.choices)):
            if not self._templates[node.choices[number].template].obstacle:
                return number
        return None

    def _skipped(self, node: Node, first: int, end: int) -> tuple[Tried, ...]:
        skipped = node.choices[first:end]
        return tuple(Tried(choice.template, 0.0, self._templates[choice.template].obstacle) for choice in skipped)

    # --- ends

    def _settle(
        self,
        step: StepNow,
        state: StepState,
        reason: str,
        *,
        failures: Mapping[FailureKind, int] | None = None,
        not_before: datetime | None = None,
        chosen: str | None = None,
    ) -> None:
        self.transitions.append(
            Settle(step.id, state, reason, step.failures if failures is None else failures, not_before, chosen)
        )
        if state in STEP_ENDS:
            self._open[step.key] -= 1
            self._ended[step.key][state] += 1

    def _finish(self) -> Finish:
        total: Counter[StepState] = Counter()
        for counts in self._ended.values():
            total.update(counts)
        failed = [key for key, counts in self._ended.items() if counts[StepState.FAILED]]
        if failed:
            names = ", ".join(f"'{key}'" for key in failed[:_NAMED])
            return Finish(RunState.FAILED, f"{names}{' and others' if failed[_NAMED:] else ''} failed.")
        if total[StepState.CANCELLED]:
            return Finish(
                RunState.CANCELLED, "The run was cancelled." if self._snapshot.is_cancelled else "A job was cancelled."
            )
        skipped = total[StepState.SKIPPED]
        return Finish(RunState.SUCCEEDED, f"{skipped} skipped." if skipped else "")


_WORDS = {StepState.FAILED: "failed", StepState.CANCELLED: "was cancelled", StepState.SKIPPED: "was skipped"}


def as_reset(step: StepNow) -> StepNow:
    """Return an ended step as a retry sees it: pending, with fresh budgets and the first template to try."""
    return replace(step, state=StepState.PENDING, choice=0, failures={}, tried=(), not_before=None, attempt=None)
