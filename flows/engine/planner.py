"""What a run should do now: a pure function from what is to what changes.

`workers.advance` loads a `Snapshot`, asks `plan`, and writes the transitions in one transaction. Nothing is remembered
between two calls, so a crash anywhere between them loses nothing: the next call plans the same again.
"""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from core import moves
from core.units import format_bytes, format_duration
from flows.engine import expressions, places
from flows.engine.expressions import Results, Value
from flows.engine.graph import Graph, Node
from flows.engine.places import PlaceForecast
from flows.engine.states import STEP_ENDS, AttemptState, FailureKind, RunState, StepState
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
    Tried,
)

_POLL = timedelta(seconds=2)
_INPUT_POLL = timedelta(seconds=5)
_LONGEST_BACKOFF_S = 60.0
_MOST_MOVES = 50
"""Forecasts and cycles may not agree on a job for ever."""

_NAMED = 3
RUN_CANCELLED = "The run was cancelled."


@dataclass(frozen=True)
class TemplateNow:
    """A template as it is now. `obstacle` is why nothing can start there; `is_unknown`: nothing can even wait there.

    `has_sites`: its jobs read cached commits. `has_capacity`: one of its nodes has what a job asks for now.
    """

    obstacle: str = ""
    is_unknown: bool = False
    is_simulated: bool = False
    has_sites: bool = True
    has_capacity: bool = True


@dataclass(frozen=True)
class DataNow:
    """The datasets of a step as jobs of one template would read them.

    `missing_bytes` have yet to be moved to `site`, in `ready_in_s` seconds; None: no rate is known. `is_assumed`: the
    rate was neither declared nor measured. `is_requested`: what is not ready is on its way. `error` is why it cannot be
    brought there. `names` are those of the datasets. `is_away`: the site is away.
    """

    names: str
    site: str
    missing_bytes: int = 0
    ready_in_s: float | None = 0.0
    is_ready: bool = True
    is_requested: bool = True
    error: str = ""
    is_assumed: bool = False
    is_away: bool = False

    @property
    def words(self) -> str:
        """Where the datasets are, or would have to be brought."""
        if self.is_away:
            return f"{self.names} waits for {self.site}, which is away"
        if self.is_ready:
            return f"{self.names} is cached on {self.site}"
        time = "" if self.ready_in_s is None else f", about {format_duration(self.ready_in_s)}"
        time += " by an assumed rate" * self.is_assumed
        would = "still" if self.is_requested else "would"
        return f"{format_bytes(self.missing_bytes)} of {self.names} {would} move to {self.site}{time}"


@dataclass(frozen=True)
class JobNow:
    """An attempt's job: still waiting, placed on a node, or ended. `never_fits`: why it can wait for ever.

    `left_nothing`: there is no output that would still have to be stored.
    """

    is_placed: bool = False
    end: AttemptState | None = None
    failure: FailureKind | None = None
    reason: str = ""
    never_fits: str = ""
    is_stopping: bool = False
    left_nothing: bool = False


@dataclass(frozen=True)
class InputsNow:
    """The datasets of an attempt that is preparing: `is_ready`, or failed because of `error`, or neither yet."""

    is_ready: bool = False
    error: str = ""


@dataclass(frozen=True)
class AttemptNow:
    """A live attempt about which there may be news. `is_harvested`: all it recorded in its log is in the database.

    `forecasts` say by template what its waiting job may expect, where it waits and elsewhere; empty: nothing is known.
    """

    id: str
    number: int
    state: AttemptState
    choice: int
    since: datetime
    inputs: InputsNow = InputsNow()
    job: JobNow | None = None
    is_harvested: bool = True
    forecasts: Mapping[str, PlaceForecast] = field(default_factory=dict)


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

    `steps` may leave out instances that have not ended and that this plan can do nothing about (see `within_reach` and
    `most_to_begin`); `idle` counts those, and `unread` those of them that have not begun. `to_reset` are the ended
    steps that a retry opens again (as if they were pending); they are in `steps` too. `data` says where the datasets of
    a step with several templates are, by step and template; a template whose jobs read no cache site is left out.
    `unreadable` says why a step cannot read at a template what its parents left; one that is left out can.
    `forecasts` say what jobs of a step may expect at its templates, where these decide (`Node.uses_forecasts`);
    `forecast_fault` says why they could not be made, empty: they could.
    """

    graph: Graph
    steps: tuple[StepNow, ...]
    ended: Mapping[str, Mapping[StepState, int]]
    results: Results
    parameters: Mapping[str, Value]
    templates: Mapping[str, TemplateNow]
    data: Mapping[tuple[str, str], DataNow] = field(default_factory=dict)
    unreadable: Mapping[tuple[str, str], str] = field(default_factory=dict)
    forecasts: Mapping[tuple[str, str], PlaceForecast] = field(default_factory=dict)
    forecast_fault: str = ""
    is_cancelled: bool = False
    cancel_reason: str = RUN_CANCELLED
    to_reset: tuple[str, ...] = ()
    is_storing: bool = False
    idle: Mapping[str, int] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)


def within_reach(
    graph: Graph, live: Mapping[str, int], moving: Mapping[str, int], pending: Mapping[str, int]
) -> frozenset[str]:
    """Return the steps whose pending instances a plan can start or skip; all others need not be loaded for it.

    That takes parents of which nothing stays as it is: of their `live` instances all are `moving` (there is news about
    them), or `pending` and themselves within reach. So one end among a thousand steps costs no check of the others.
    Without `pending`, those are left out that follow only if a step ends that never began: see `goes_further`.
    """
    reached: set[str] = set()
    lasting: set[str] = set()
    for node in graph.nodes:
        key = node.key
        if key not in live:
            continue
        if is_reached := lasting.isdisjoint(node.after):
            reached.add(key)
        if moving.get(key, 0) + (pending.get(key, 0) if is_reached else 0) < live[key]:
            lasting.add(key)
    return frozenset(reached)


def most_to_begin(
    graph: Graph,
    live: Mapping[str, int],
    pending: Mapping[str, int],
    ended: Mapping[str, Mapping[StepState, int]],
) -> dict[str, int]:
    """Return of which steps a plan begins so many of the pending instances at most, so that no more need be loaded.

    Steps of which none has begun are left out: their condition, or their parents, decide about all instances at once.
    """
    return {
        node.key: node.most_at_once
        for node in graph.nodes
        if node.most_at_once is not None
        and (live.get(node.key, 0) > pending.get(node.key, 0) or any(ended.get(node.key, {}).values()))
    }


def goes_further(snapshot: Snapshot, transitions: Iterable[Transition]) -> bool:
    """Whether a plan ends steps that never began, so that others behind these may follow that were left out."""
    waiting = {step.id for step in snapshot.steps if step.state is StepState.PENDING}
    return any(isinstance(each, Settle) and each.step_id in waiting and each.state in STEP_ENDS for each in transitions)


def next_readers(
    graph: Graph,
    live: Mapping[str, int],
    pending: Mapping[str, int],
    running: Mapping[str, int],
    ended: Mapping[str, Mapping[StepState, int]],
) -> list[Node]:
    """Return the steps whose cached commits are worth bringing now: all that is left of their parents runs.

    The counts are those of the instances of each step. Steps further below come once their own parents run.
    """
    return [
        node
        for node in graph.readers
        if live.get(node.key, 0) == pending.get(node.key, 0) > 0
        and any(live.get(parent, 0) for parent in node.after)
        and all(live.get(parent, 0) == running.get(parent, 0) for parent in node.after)
        and not any(ended.get(parent, {}).get(state, 0) for parent in node.after for state in _WORDS)
    ]


def likely_start(snapshot: Snapshot, step: StepNow, now: datetime) -> Start | None:
    """Return how a step would begin if its parents had succeeded by now; None: nowhere. Nothing is decided by it."""
    planner = _Planner(snapshot, now)
    planner.start_now(step)
    return next((each for each in planner.transitions if isinstance(each, Start)), None)


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
        self._ended = dict(snapshot.ended)
        self._open = Counter(snapshot.idle)
        self._open.update(step.key for step in snapshot.steps)
        self._waiting: dict[str, list[StepNow]] = defaultdict(list)
        self._is_storing = snapshot.is_storing
        self._sent: Counter[tuple[str, str]] = Counter()
        self.transitions: list[Transition] = []

    def run(self) -> None:
        self.transitions.extend(Reset(step_id) for step_id in self._snapshot.to_reset)
        for step in self._snapshot.steps:
            self._look_at(step)
        for node in self._graph.nodes:
            if node.key in self._waiting:
                self._consider(node, self._waiting[node.key])
        if sum(self._open.values()) == 0 and not self._is_storing:
            self.transitions.append(self._finish())

    def start_now(self, step: StepNow) -> None:
        """Begin a step whatever its parents do."""
        self._start(self._graph.by_key[step.key], step)

    # --- steps that have an attempt, and those between two

    def _look_at(self, step: StepNow) -> None:
        if step.state is StepState.PENDING:
            if self._snapshot.is_cancelled:
                self._settle(step, StepState.CANCELLED, self._snapshot.cancel_reason)
            else:
                self._waiting[step.key].append(step)
        elif step.state is StepState.BACKOFF:
            if self._snapshot.is_cancelled:
                self._settle(step, StepState.CANCELLED, self._snapshot.cancel_reason)
            elif step.not_before is None or step.not_before <= self._now:
                self._start(self._graph.by_key[step.key], step)
        elif step.attempt is not None:
            self._follow(self._graph.by_key[step.key], step, step.attempt)

    def _follow(self, node: Node, step: StepNow, attempt: AttemptNow) -> None:
        if attempt.state is AttemptState.PREPARING and (attempt.job is None or attempt.job.end is None):
            self._follow_preparing(node, step, attempt)
        elif attempt.job is None:
            self._fail(node, step, attempt, FailureKind.INFRASTRUCTURE, "The job of this attempt is gone.")
        elif attempt.job.end is not None:
            self._follow_end(node, step, attempt, attempt.job)
        elif self._snapshot.is_cancelled:
            if not attempt.job.is_stopping:
                self.transitions.append(Cancel(attempt.id, self._snapshot.cancel_reason))
        elif attempt.state is AttemptState.QUEUED:
            if attempt.job.is_placed:
                self.transitions.append(Observe(step.id, attempt.id, node.choices[attempt.choice].template))
            else:
                self._follow_waiting(node, step, attempt, attempt.job)
        elif not attempt.job.is_placed:
            reminder = self._reminder(node, step, attempt, self._now)
            self.transitions.append(Requeue(step.id, attempt.id, node.choices[attempt.choice].template, reminder))

    def _follow_preparing(self, node: Node, step: StepNow, attempt: AttemptNow) -> None:
        if self._snapshot.is_cancelled:
            self._cancel_gated(attempt, self._snapshot.cancel_reason)
            self.transitions.append(
                End(step.id, attempt.id, AttemptState.CANCELLED, None, self._snapshot.cancel_reason)
            )
            self._settle(step, StepState.CANCELLED, self._snapshot.cancel_reason)
        elif self._templates[node.choices[attempt.choice].template].is_unknown:
            gone = f"The template {node.choices[attempt.choice].template} does not exist any more."
            self._cancel_gated(attempt, gone)
            self._fail(node, step, attempt, FailureKind.INFRASTRUCTURE, gone)
        elif attempt.inputs.error:
            self._cancel_gated(attempt, attempt.inputs.error)
            self._fail(node, step, attempt, FailureKind.INFRASTRUCTURE, attempt.inputs.error)
        elif attempt.inputs.is_ready:
            self.transitions.append(Submit(step.id, attempt.id, self._reminder(node, step, attempt, self._now)))
        else:
            self.transitions.append(Remind(attempt.id, self._now + _INPUT_POLL))

    def _cancel_gated(self, attempt: AttemptNow, reason: str) -> None:
        """Cancel the job of an attempt that ends before its datasets are there. Older attempts have none yet."""
        if attempt.job is not None:
            self.transitions.append(Cancel(attempt.id, reason))

    def _follow_end(self, node: Node, step: StepNow, attempt: AttemptNow, job: JobNow) -> None:
        if not attempt.is_harvested:
            self.transitions.append(Remind(attempt.id, self._now + _POLL))
        elif job.end is AttemptState.SUCCEEDED:
            self.transitions.append(End(step.id, attempt.id, AttemptState.SUCCEEDED, None, ""))
            # Its outputs are kept from now on; the run ends when that is done.
            is_simulated = self._templates[node.choices[attempt.choice].template].is_simulated
            self._is_storing = self._is_storing or not (is_simulated or job.left_nothing)
            self._settle(step, StepState.SUCCEEDED, "", chosen=attempt.id)
        elif job.end is AttemptState.CANCELLED:
            reason = (
                self._snapshot.cancel_reason if self._snapshot.is_cancelled else job.reason or "The job was cancelled."
            )
            self.transitions.append(End(step.id, attempt.id, AttemptState.CANCELLED, None, reason))
            self._settle(step, StepState.CANCELLED, reason, chosen=attempt.id)
        else:
            self._fail(node, step, attempt, job.failure or FailureKind.USER_ERROR, job.reason)

    def _follow_waiting(self, node: Node, step: StepNow, attempt: AttemptNow, job: JobNow) -> None:
        """Stay with a template within its budget; then, or where it cannot work at all, try the next one.

        Where forecasts decide there is no budget: it goes where it is done sooner by much. Without any the order does.
        A job with a size of its own has no budget either: it goes where it can start now.
        """
        choice, left = node.choices[attempt.choice], self._left(node, step, attempt.choice)
        waited = self._now - attempt.since
        why = self._templates[choice.template].obstacle
        if job.never_fits:
            why = why or f"can never run it: {job.never_fits}"
        following, is_patient = None, not why  # patient: its place in line is worth keeping
        others = self._others(node, step, attempt.choice)
        known = self._known_places(node, others, attempt) if node.moves_by_forecasts else {}
        if not why and known:
            following, why = self._find_better(node, attempt, known)
        elif not why and node.has_budgets and waited >= timedelta(seconds=choice.wait_s):
            why = f"could not start within {format_duration(choice.wait_s)}"
            why += f" ({job.reason})" if job.reason else ""
            why += ", and no forecast says where it would be done first" if node.uses_forecasts else ""
        if why and following is None:
            following = self._next_usable(node, left)
        if following is None:
            self.transitions.append(Remind(attempt.id, self._reminder(node, step, attempt, attempt.since)))
        elif is_patient and not self._is_data_ready(node, following):
            self.transitions.append(Bring(step.id, attempt.id, node.choices[following].template, why))
            self.transitions.append(Remind(attempt.id, self._now + _INPUT_POLL))
        else:
            tried = (*step.tried, Tried(choice.template, waited.total_seconds(), why))
            tried += self._skipped(node, others, following)
            start = self._start_at(node, step, following, tried)
            self.transitions.append(Supersede(step.id, attempt.id, why, start))

    def _known_places(self, node: Node, left: Sequence[int], attempt: AttemptNow) -> dict[int, PlaceForecast]:
        """Return what is forecast of a job that waits, where it waits and at other choices.

        Empty: nothing of where it waits, or nowhere when it is done.
        """
        usable = [attempt.choice, *(number for number in left if not self._obstacle(node, number))]
        known = {
            number: attempt.forecasts[node.choices[number].template]
            for number in usable
            if node.choices[number].template in attempt.forecasts
        }
        tells = (place.start_of(0) if node.fallback == "order" else place.finish_of(0) for place in known.values())
        is_known = attempt.choice in known and min(tells) < math.inf
        return known if is_known else {}

    def _find_better(
        self, node: Node, attempt: AttemptNow, known: Mapping[int, PlaceForecast]
    ) -> tuple[int | None, str]:
        """Return the choice where a job that waits is done sooner by so much that it moves, and why; else None."""
        if node.fallback == "order":
            return self._find_free(node, attempt, known)
        decision = places.choose("soonest", known, {}) if node.fallback == "soonest" else None
        if decision is None or decision.chosen == attempt.choice:
            return None, ""
        template, stays_s = node.choices[decision.chosen].template, known[attempt.choice].finish_of(0)
        goes_s = known[decision.chosen].finish_of(0)
        if not moves.is_end_better(goes_s, stays_s):
            return None, ""
        self._sent[node.key, template] += 1
        if stays_s == math.inf:
            return decision.chosen, f"has no forecast of when it is done, and {template} has one"
        return (
            decision.chosen,
            f"is forecast to be done with it {format_duration(stays_s - goes_s)} later than {template}",
        )

    def _find_free(self, node: Node, attempt: AttemptNow, known: Mapping[int, PlaceForecast]) -> tuple[int | None, str]:
        """Return the first choice where a job that waits starts now, or with its data much earlier, and why.

        None: it stays.
        """
        here_s = known[attempt.choice].start_of(0)
        for number in sorted(known.keys() - {attempt.choice}):
            template, there_s = node.choices[number].template, known[number].start_of(0)
            if not moves.is_start_better(there_s, here_s, has_data=node.has_data):
                continue
            self._sent[node.key, template] += 1
            if there_s <= moves.NOW_S:
                return number, f"cannot start it now, and {template} can"
            return number, f"would start it much later than {template}, where that is in {format_duration(there_s)}"
        return None, ""

    def _reminder(self, node: Node, step: StepNow, attempt: AttemptNow, since: datetime) -> datetime | None:
        """Return when to look again at a job that waits; None where there is nothing else to try."""
        if not self._others(node, step, attempt.choice):
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
                if self._count_ended(parent, state)
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
        self._start_some(node, steps)

    def _start_some(self, node: Node, steps: Sequence[StepNow]) -> None:
        """Begin as many instances as may run at once, those of lower indexes first."""
        waiting = deque(steps)
        unread = self._snapshot.unread.get(node.key, 0)
        # Parts that a retry does not open again keep none of the others from it.
        earlier_ends = self._count_bad(node.key) if waiting[0].id in self._snapshot.to_reset else 0
        while waiting:
            if node.ends_with_a_part and (ends := self._count_bad(node.key) - earlier_ends):
                while waiting:
                    self._settle(waiting.popleft(), StepState.SKIPPED, f"Of its parts {ends} did not succeed.")
            elif node.most_at_once is None or self._open[node.key] - len(waiting) - unread < node.most_at_once:
                self._start(node, waiting.popleft())
            else:
                return

    def _count_bad(self, key: str) -> int:
        return self._count_ended(key, StepState.FAILED) + self._count_ended(key, StepState.CANCELLED)

    def _start(self, node: Node, step: StepNow) -> None:
        """Begin an attempt at the first template that can work and is left to try, else where it can wait.

        Forecasts decide where the step says so. Else the place of the data decides between templates for which it has
        no wait of its own (`_nearest`).
        """
        # With a size of its own it is as welcome at each of its places as before: what it left was full then.
        left = list(range(len(node.choices))) if node.has_own_size else self._left(node, step)
        first, why, remark = self._next_usable(node, left), "", ""
        if first is None:
            known = [
                number
                for number in left
                if not self._templates[node.choices[number].template].is_unknown and not self._unread(node, number)
            ]
            chosen = known[-1] if known else None
        else:
            chosen, why, remark = self._prefer(node, left, first)
        tried = () if node.has_own_size else step.tried
        tried += self._skipped(node, left, chosen if first is None else first)
        if chosen is None:
            reasons = "; ".join(f"{item.template} {item.why}" for item in tried)
            self._settle(step, StepState.FAILED, f"None of its templates can run it: {reasons}.")
        else:
            self.transitions.append(
                self._start_at(node, step, chosen, tried, passed_over=first, reason=why, remark=remark)
            )

    def _prefer(self, node: Node, left: Sequence[int], first: int) -> tuple[int, str, str]:
        """Return the choice to begin with, why it is not the first that can start, and what else is to be said.

        Without a reason the data says it.
        """
        names = {number: node.choices[number].template for number in left if not self._obstacle(node, number)}
        forecasts = {
            number: self._snapshot.forecasts[node.key, name]
            for number, name in names.items()
            if (node.key, name) in self._snapshot.forecasts
        }
        taken = {number: self._sent[node.key, name] for number, name in names.items()}
        decision = places.choose(node.fallback, forecasts, taken) if node.uses_forecasts else None
        if decision is None:
            chosen, why = self._nearest(node, left, first), ""
            if node.has_own_size and self._data(node, first) is None:
                chosen, why = self._first_free(node, left, first)
            return chosen, why, self._unforecast_words(node)
        self._sent[node.key, names[decision.chosen]] += 1
        return decision.chosen, places.explain(node.fallback, decision, forecasts, taken, names), ""

    def _unforecast_words(self, node: Node) -> str:
        """Say that the order decides though the step says otherwise; empty where it does not."""
        if not node.uses_forecasts:
            return ""
        if fault := self._snapshot.forecast_fault:
            return f" The order of its templates decides, as no forecast could be made: {fault.rstrip('.')}."
        return " The order of its templates decides, as nothing can be forecast there yet."

    def _left(self, node: Node, step: StepNow, current: int | None = None) -> list[int]:
        """Return the choices that were not tried yet, in their order, without the current one."""
        left = [number for number in range(len(node.choices)) if number != current]
        for item in step.tried:
            number = next((number for number in left if node.choices[number].template == item.template), None)
            if number is not None:
                left.remove(number)
        return left

    def _others(self, node: Node, step: StepNow, current: int) -> list[int]:
        """Return the choices to which a job that waits may go: one with a size of its own may go back too."""
        if not node.has_own_size:
            return self._left(node, step, current)
        may_move = len(step.tried) < _MOST_MOVES
        return [number for number in range(len(node.choices)) if number != current] if may_move else []

    def _nearest(self, node: Node, left: Sequence[int], first: int) -> int:
        """Return the choice to begin with: the first, unless the data is there sooner for one that is as welcome.

        A choice with a wait of its own is not passed over if the data gets there within that wait.
        """
        equals = []
        for number in left[left.index(first) :]:
            template, choice = self._templates[node.choices[number].template], node.choices[number]
            data = self._data(node, number)
            if data is None or self._obstacle(node, number):
                continue
            equals.append((not template.has_capacity, _seconds(data), data.missing_bytes, number))
            if choice.has_own_wait and _seconds(data) <= choice.wait_s:
                break
        here = self._data(node, first)
        if here is None or (here.is_ready and self._templates[node.choices[first].template].has_capacity):
            return first
        brought = [item for item in equals if item[-1] == first or self._is_brought(node, item[-1])]
        return min(brought)[-1] if brought else first

    def _first_free(self, node: Node, left: Sequence[int], first: int) -> tuple[int, str]:
        """Return the first choice that can start a job now, and why it is not the first of all; else that."""
        names = {number: node.choices[number].template for number in left if not self._obstacle(node, number)}
        free = next((number for number, name in names.items() if self._templates[name].has_capacity), first)
        return free, "" if free == first else f"{names[free]} can start it now, {names[first]} cannot."

    def _data(self, node: Node, choice: int) -> DataNow | None:
        return self._snapshot.data.get((node.key, node.choices[choice].template))

    def _is_brought(self, node: Node, choice: int) -> bool:
        data = self._data(node, choice)
        return data is not None and data.is_requested

    def _is_data_ready(self, node: Node, choice: int) -> bool:
        data = self._data(node, choice)
        return data is None or data.is_ready

    def _start_at(
        self,
        node: Node,
        step: StepNow,
        choice: int,
        tried: tuple[Tried, ...],
        *,
        passed_over: int | None = None,
        reason: str = "",
        remark: str = "",
    ) -> Start:
        template = node.choices[choice].template
        facts = self._templates[template]
        why = f"{tried[-1].template} {tried[-1].why}." if tried else "It is the first choice."
        if reason:
            why = reason
        elif passed_over is not None and passed_over != choice:
            why = f"{template} has its data sooner than {node.choices[passed_over].template}."
        if facts.obstacle:
            why += f" {template} {facts.obstacle}, but nothing else is left to try."
        why += remark + self._data_words(node, choice, passed_over)
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
            remind_at=self._now + _INPUT_POLL
            if prepares
            else self._reminder(node, replace(step, tried=tried), begun, self._now),
        )

    def _data_words(self, node: Node, choice: int, passed_over: int | None) -> str:
        """Say where the data is for the choice, and what it would take elsewhere."""
        others = [passed_over] if passed_over not in {None, choice} else range(len(node.choices))
        data = [self._data(node, number) for number in (choice, *(each for each in others if each != choice))]
        words = dict.fromkeys(each.words for each in data if each is not None)
        return f" {'; '.join(words)}." if data[0] is not None else ""

    def _next_usable(self, node: Node, left: Sequence[int]) -> int | None:
        return next((number for number in left if not self._obstacle(node, number)), None)

    def _obstacle(self, node: Node, choice: int) -> str:
        """Return why a step cannot start at a template; empty when it can."""
        data = self._data(node, choice)
        refusal = f"cannot get its data: {data.error}" if data is not None and data.error else ""
        return self._templates[node.choices[choice].template].obstacle or self._unread(node, choice) or refusal

    def _unread(self, node: Node, choice: int) -> str:
        return self._snapshot.unreadable.get((node.key, node.choices[choice].template), "")

    def _skipped(self, node: Node, left: Sequence[int], end: int | None) -> tuple[Tried, ...]:
        """Return those that are left out up to `end` (None: all) because something keeps them from serving."""
        until = left if end is None else left[: left.index(end)]
        obstacles = [(node.choices[number].template, self._obstacle(node, number)) for number in until]
        return tuple(Tried(template, 0.0, why) for template, why in obstacles if why)

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
            self._ended[step.key] = Counter(self._ended.get(step.key)) + Counter([state])

    def _count_ended(self, key: str, state: StepState) -> int:
        return self._ended.get(key, {}).get(state, 0)

    def _finish(self) -> Finish:
        total: Counter[StepState] = Counter()
        for counts in self._ended.values():
            total.update(counts)
        failed = [node.key for node in self._graph.nodes if self._count_ended(node.key, StepState.FAILED)]
        if failed:
            names = ", ".join(f"'{key}'" for key in failed[:_NAMED])
            return Finish(RunState.FAILED, f"{names}{' and others' if failed[_NAMED:] else ''} failed.")
        if total[StepState.CANCELLED]:
            return Finish(
                RunState.CANCELLED,
                self._snapshot.cancel_reason if self._snapshot.is_cancelled else "A job was cancelled.",
            )
        skipped = total[StepState.SKIPPED]
        return Finish(RunState.SUCCEEDED, f"{skipped} skipped." if skipped else "")


def _seconds(data: DataNow) -> float:
    return math.inf if data.ready_in_s is None else data.ready_in_s


_WORDS = {StepState.FAILED: "failed", StepState.CANCELLED: "was cancelled", StepState.SKIPPED: "was skipped"}


def as_reset(step: StepNow) -> StepNow:
    """Return an ended step as a retry sees it: pending, with fresh budgets and the first template to try."""
    return replace(step, state=StepState.PENDING, choice=0, failures={}, tried=(), not_before=None, attempt=None)
