"""Reads about runs: lists, one run with its steps and attempts, its events and stamps, and the logs of its steps."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from django.conf import settings
from django.db.models import Max, OuterRef, Q, QuerySet, Subquery

from accounts.permissions import Actor, require
from accounts.selectors import get_project
from compute.selectors import job_rows, logs, outlooks, waits
from compute.selectors import jobs as job_selectors
from compute.selectors.job_rows import RunHistory
from compute.selectors.jobs import JobStatus
from compute.selectors.outlooks import Outlook
from compute.selectors.waits import Wait
from core import clock, isolation
from core.errors import InvalidInput
from core.times import Interval, Times, measure
from experiments.selectors.recorded import LogRecord, Problems, records_of_run
from flows import permissions
from flows.engine.states import RUN_ENDS, RunState
from flows.errors import RunNotFound, StepAmbiguous, StepNotFound
from flows.models import Attempt, Flow, Run, RunEvent, Step
from flows.selectors import inputs
from flows.selectors.failures import ADVANCE
from scheduler.selectors.workloads import WorkloadWait

# What is shown of an attempt; a run may have hundreds, and decoding all their JSON would take longer than all else.
_SHOWN = (
    *("run", "step", "number", "state", "template", "reason", "failure", "job_name", "job"),
    *("created_at", "started_at", "finished_at"),
)

_MOST_NAMED = 10
_WAITING = ("preparing", "queued")
_BRINGS_DATA = "Its data is being brought to the compute."


@dataclass(frozen=True)
class AttemptView:
    """One try of a step as people see it. While it waits, `advice` says what would let it start.

    `is_unknown`: the resource of its job does not answer, so that `state` is the last that was known.

    `started_at` and `finished_at` are its job's own; `last_lines` those of its log that say why it failed. `history` is
    what its job did before it was evicted; None: it was not.
    """

    number: int
    state: str
    template: str
    reason: str
    failure: str
    job_name: str
    node: str
    exit_code: int | None
    last_lines: str
    experiment_id: str
    is_simulated: bool
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    advice: str = ""
    is_unknown: bool = False
    log_problems: Problems = field(default_factory=Problems)
    history: RunHistory | None = None

    @property
    def state_shown(self) -> str:
        """Its state as people see it."""
        return "unknown" if self.is_unknown else self.state

    @property
    def times(self) -> Times | None:
        """How long it waited and ran."""
        return measure(self.intervals, now=clock.now())

    @property
    def intervals(self) -> Sequence[Interval]:
        """From when it was queued to its end, parted where it was evicted."""
        earlier = self.history.runs if self.history is not None else []
        queued_at = (self.history.queued_at if self.history is not None else None) or self.created_at
        return [*earlier, Interval(queued_at, self.started_at, self.finished_at)]


@dataclass(frozen=True)
class StepView:
    """One instance of a step with its tries. `index` None: the step is no grid. `label` is what people call it.

    `title` is what pages show in its place: the title that the flow gives it, with the values of its grid.

    `is_simulated`: the nodes of its newest try do not exist.
    """

    key: str
    index: int | None
    label: str
    title: str
    state: str
    reason: str
    depends_on: Sequence[str]
    parameters: Mapping[str, object]
    template: str | None
    decision: Mapping[str, object]
    attempts: Sequence[AttemptView]
    experiment_id: str | None
    is_simulated: bool
    started_at: datetime | None
    finished_at: datetime | None
    advice: str = ""
    wait: Wait | None = None
    outlook: Outlook | None = None

    @property
    def is_unknown(self) -> bool:
        """Whether the resource of its newest try does not answer, so that `state` is the last that was known."""
        return bool(self.attempts) and self.attempts[-1].is_unknown

    @property
    def state_shown(self) -> str:
        """Its state as people see it."""
        return "unknown" if self.is_unknown else self.state

    @property
    def times(self) -> Times | None:
        """How long it waited and ran, all tries together, and from the first to the last; None before the first."""
        return measure([each for attempt in self.attempts for each in attempt.intervals], now=clock.now())


@dataclass(frozen=True)
class LogText:
    """Part of a log. `next_offset` counts bytes and never points into the middle of a character."""

    data: str
    next_offset: int
    is_complete: bool


def list_runs(
    *,
    actor: Actor,
    project: str | None = None,
    flow: str | None = None,
    state: str | None = None,
    number: int | None = None,
) -> QuerySet[Run]:
    """Return the runs that the actor may see, newest first; only those of a project, flow, state or number if asked."""
    runs = Run.objects.filter(deleted_at=None, flow__deleted_at=None)
    runs = runs.select_related("project", "flow", "version").defer("version__spec", "version__text")
    if not actor.sees_everything:
        runs = runs.filter(project_id__in=actor.project_ids)
    if project is not None:
        runs = runs.filter(project=get_project(actor=actor, name=project))
    if flow is not None:
        runs = runs.filter(flow__name=flow)
    if state is not None:
        if state not in set(RunState):
            raise InvalidInput(f"'{state}' is no state of a run. There are: {', '.join(RunState)}.")
        runs = runs.filter(state=state)
    if number is not None:
        runs = runs.filter(number=number)
    return runs.order_by("-pk")


def list_last_runs(*, actor: Actor, flows: Sequence[Flow], count: int) -> Mapping[str, list[Run]]:
    """Return at most `count` newest runs of each flow by its id, oldest first, in two queries for all of them."""
    shown = Run.objects.filter(flow=OuterRef("pk"), deleted_at=None).order_by("-number").values("number")
    firsts = Flow.objects.filter(pk__in=[flow.pk for flow in flows]).annotate(first=Subquery(shown[count - 1 : count]))
    condition = Q(pk__in=[])
    for pk, first in firsts.values_list("pk", "first"):
        condition |= Q(flow=pk, number__gte=first or 0)
    runs_of: dict[str, list[Run]] = {flow.pk: [] for flow in flows}
    for run in list_runs(actor=actor).filter(condition).order_by("pk"):
        runs_of[run.flow_id].append(run)
    return runs_of


def list_live_of(usernames: Collection[str]) -> QuerySet[Run]:
    """Return the runs that these people started and that have not ended. For the platform itself."""
    live = Run.objects.filter(created_by__in=usernames).exclude(state__in=sorted(RUN_ENDS))
    return live.select_related("project", "flow").order_by("pk")


def get_run(*, actor: Actor, run_id: str) -> Run:
    """Return a run. Raises RunNotFound, also to those who are not members of its project."""
    run = list_runs(actor=actor).filter(pk=run_id).first()
    if run is None:
        raise RunNotFound(f"There is no run '{run_id}', or you are not a member of its project.")
    return run


def list_steps(*, actor: Actor, run: Run) -> list[StepView]:
    """Return all steps of a run with their tries, in the order of the flow. A fixed number of queries."""
    require(actor, permissions.VIEW_FLOWS, run.project_id)
    spec = {step["name"]: step for step in cast("Any", run.version.spec)["steps"]}
    attempts: dict[str, list[AttemptView]] = {}
    rows = list(Attempt.objects.filter(run=run).only(*_SHOWN).order_by("number"))
    # Read after the attempts: each has its experiment from the same transaction on.
    records = records_of_run(run.pk)
    jobs = job_selectors.states_of(Attempt.objects.filter(run=run).values("job"))
    histories = job_rows.find_histories({pk for pk, job in jobs.items() if job.evictions})
    waiting: dict[str, str] = {}
    steps = list(Step.objects.filter(run=run))
    preparing, queued = ([row.pk for row in rows if row.state == state] for state in _WAITING)
    brought = [step.pk for step in steps if step.state == "pending" and spec.get(step.key, {}).get("data") and rows]
    arrivals = inputs.describe_arrivals(preparing, queued, brought)
    for row in rows:
        job = jobs.get(row.job_id) if row.job_id is not None else None
        view = _attempt_view(row, job, records[row.pk], arrivals.get(row.pk, ""))
        attempts.setdefault(row.step_id, []).append(replace(view, history=histories.get(row.job_id or "")))
        if row.state == "queued" and job is not None:
            waiting[row.step_id] = job.id
    pending = job_selectors.list_many(waiting.values()) if waiting else []
    wait_of = waits.find_waits(actor=actor, jobs=pending)
    outlook_of = outlooks.find_outlooks(actor=actor, jobs=pending)
    views = [
        _step_view(
            step,
            spec.get(step.key, {}),
            attempts.get(step.pk, []),
            wait_of.get(waiting.get(step.pk, "")),
            outlook_of.get(waiting.get(step.pk, "")),
        )
        for step in steps
    ]
    return [
        replace(view, reason=f"Data brought ahead: {arrivals[step.pk]}") if step.pk in arrivals else view
        for step, view in zip(steps, views, strict=True)
    ]


def times_of(run: Run, steps: Sequence[StepView]) -> Times:
    """Return how long a run waited and ran, and how long it took from when it was asked for to its last end.

    Between its end and a retry it neither waits nor runs.
    """
    intervals = [each for step in steps for attempt in step.attempts for each in attempt.intervals]
    together = measure(intervals, now=clock.now()) or Times(0.0, None, 0.0)
    return replace(together, total_s=total_s(run))


def total_s(run: Run) -> float:
    """Return the seconds from when a run was asked for to its last end, or to now."""
    return round(max(0.0, ((run.finished_at or clock.now()) - run.created_at).total_seconds()), 3)


def list_events(*, actor: Actor, run: Run, after: int = 0) -> QuerySet[RunEvent]:
    """Return what happened in a run after the event with that number, oldest first; `step` is the step's label."""
    require(actor, permissions.VIEW_FLOWS, run.project_id)
    of_event = Step.objects.filter(run=OuterRef("run"), key=OuterRef("step_key"), index=OuterRef("step_index"))
    events = RunEvent.objects.filter(run=run, seq__gt=after)
    return events.annotate(step=Subquery(of_event.values("label")[:1])).order_by("seq")


def stamp_of_all_runs() -> str:
    """Return a stamp that is another one whenever anything happened in any run."""
    return str(RunEvent.objects.aggregate(newest=Max("pk"))["newest"])


def stamps_of_runs(run_ids: Collection[str]) -> Mapping[str, str]:
    """Return for each of these runs a stamp that is another one whenever something happened in it."""
    rows = Run.objects.filter(pk__in=run_ids).values_list("pk", "event_seq", "cancel_requested_at")
    failed = {failure.item_id: f"f{failure.attempts}" for failure in isolation.find([ADVANCE], run_ids)}
    return {run_id: f"{seq}{'c' if is_cancelled else ''}{failed.get(run_id, '')}" for run_id, seq, is_cancelled in rows}


def get_step(*, actor: Actor, run: Run, key: str, index: int | None = None) -> Step:
    """Return a step of a run; `index` names one try of a grid. Raises StepNotFound, and StepAmbiguous without one."""
    require(actor, permissions.VIEW_FLOWS, run.project_id)
    tries = Step.objects.filter(run=run, key=key).order_by("index")
    first, *others = (tries if index is None else tries.filter(index=index))[: _MOST_NAMED + 1] or [None]
    if first is None:
        raise StepNotFound(f"This run has no step '{key}'" + ("." if index is None else f" with the index {index}."))
    if others:
        names = [f"{step.label} (index {step.index})" for step in (first, *others)]
        more = f" and {tries.count() - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
        raise StepAmbiguous(f"'{key}' has several tries: {', '.join(names[:_MOST_NAMED])}{more}.", step=key)
    return first


def find_step_of_job(*, actor: Actor, job_id: str) -> Step | None:
    """Return the step of which a job is a try, with its run; None for others, and to those who may not see it."""
    runs = list_runs(actor=actor)
    return Step.objects.filter(attempts__job=job_id, run__in=runs).select_related("run__flow").order_by("pk").first()


def title_of(step: Step, title: str) -> str:
    """Return what pages call a step: the title that the flow gives it, or its name, with the values of its grid."""
    return f"{title or step.key}{step.label.removeprefix(step.key)}"


def get_attempt(
    *, actor: Actor, run: Run, key: str, index: int | None = None, number: int | None = None
) -> Attempt | None:
    """Return a try of a step: the newest unless `number` says which; None when there was none yet.

    Raises RunNotFound for a step or a number that does not exist, and StepAmbiguous.
    """
    require(actor, permissions.VIEW_FLOWS, run.project_id)
    step = get_step(actor=actor, run=run, key=key, index=index)
    attempts = Attempt.objects.filter(step=step).order_by("-number")
    if number is not None:
        attempts = attempts.filter(number=number)
        if not attempts.exists():
            raise RunNotFound(f"The step '{key}' has no attempt {number}.")
    return attempts.first()


def read_log(
    *,
    actor: Actor,
    run: Run,
    key: str,
    index: int | None = None,
    attempt: int | None = None,
    offset: int = 0,
    limit: int = job_selectors.MAX_LOG_BYTES,
) -> LogText:
    """Return what a step printed, from a byte offset, without the platform's own lines.

    Complete once its job has ended and all of it was read.
    """
    record = get_attempt(actor=actor, run=run, key=key, index=index, number=attempt)
    if record is None or record.job is None:
        return LogText("", offset, is_complete=run.has_ended)
    part = logs.read_text(actor=actor, job=record.job, offset=offset, limit=limit)
    return LogText(part.text, part.next_offset, part.is_complete)


def url_of(run: Run) -> str:
    """Return the address of a run's page."""
    return f"{settings.NEARLINE.url}/runs/{run.pk}/"


def _attempt_view(row: Attempt, job: JobStatus | None, record: LogRecord, arrival: str) -> AttemptView:
    wait = job.wait if job is not None and row.state == "queued" else WorkloadWait()
    waits_for = (arrival or _BRINGS_DATA) if row.state == "preparing" else wait.reason
    if row.state == "queued" and arrival:
        waits_for = f"{waits_for.removesuffix('.')}. Meanwhile {arrival}"
    elif row.state == "running" and job is not None and job.state == "starting":
        waits_for = job.reason
    unknown_reason = job.unknown_reason if job is not None and row.state == "running" else ""
    return AttemptView(
        number=row.number,
        state=row.state,
        template=row.template,
        reason=row.reason or unknown_reason or waits_for,
        failure=row.failure,
        job_name=row.job_name,
        node=job.node_name if job else "",
        exit_code=job.exit_code if job else None,
        last_lines=job.last_lines if job else "",
        experiment_id=record.experiment_id,
        is_simulated=job is not None and job.is_simulated,
        is_unknown=bool(unknown_reason),
        created_at=row.created_at,
        started_at=(job.started_at if job else None) or row.started_at,
        finished_at=(job.finished_at if job else None) or row.finished_at,
        advice=wait.advice,
        log_problems=record.problems,
    )


def _step_view(
    step: Step, fields: Mapping[str, Any], attempts: list[AttemptView], wait: Wait | None, outlook: Outlook | None
) -> StepView:
    is_fan = bool(fields.get("grid")) or fields.get("completions", 1) > 1
    return StepView(
        key=step.key,
        index=step.index if is_fan else None,
        label=step.label,
        title=title_of(step, fields.get("title", "")),
        state=step.state,
        reason=step.reason
        or (attempts[-1].reason if attempts and not step.has_ended else "")
        or _fallback_reason(step),
        depends_on=fields.get("after", []),
        parameters=step.parameters,
        template=step.template or None,
        decision=step.decision,
        attempts=attempts,
        experiment_id=attempts[-1].experiment_id if attempts else None,
        is_simulated=bool(attempts) and attempts[-1].is_simulated,
        started_at=step.started_at,
        finished_at=step.finished_at,
        advice=attempts[-1].advice if attempts else "",
        wait=wait,
        outlook=outlook,
    )


def _fallback_reason(step: Step) -> str:
    """Say why a step that has nothing else to say runs elsewhere than on its first choice."""
    return step.why if step.tried or step.choice else ""
