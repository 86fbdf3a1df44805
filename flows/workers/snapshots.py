"""Reading a run into the planner's snapshot: a fixed number of queries, and rows only of what can change now."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from django.db import DEFAULT_DB_ALIAS
from django.db.models import Max, Q, QuerySet

from compute.selectors import jobs, places, pool_places
from compute.selectors.jobs import JobStatus
from compute.selectors.places import NewJob, StoredPlace
from compute.selectors.states import JobState
from compute.services.jobs import Placing
from core import isolation
from core.prepared import prepared
from datasets.selectors import locality
from datasets.selectors.locality import DataArrival
from experiments.selectors import artifacts
from experiments.workers.harvest import ReadLogs
from flows.engine import planner
from flows.engine.expressions import Value
from flows.engine.graph import Graph, Node
from flows.engine.places import PlaceForecast
from flows.engine.planner import AttemptNow, DataNow, InputsNow, JobNow, Snapshot, StepNow, TemplateNow
from flows.engine.spec import FlowSpec, StepSpec
from flows.engine.states import STEP_ENDS, AttemptState, FailureKind, StepState
from flows.engine.transitions import Tried
from flows.models import Attempt, InputState, Run, Step
from flows.selectors import failures, specs
from flows.workers import handover, known_runs
from flows.workers.known_runs import StepCounts

_ENDED_STEPS = sorted(state.value for state in STEP_ENDS)
_REOPENED = ("failed", "skipped", "cancelled")
_JOB_ENDS: Mapping[JobState, AttemptState] = {
    JobState.SUCCEEDED: AttemptState.SUCCEEDED,
    JobState.FAILED: AttemptState.FAILED,
    JobState.LOST: AttemptState.FAILED,
    JobState.CANCELLED: AttemptState.CANCELLED,
}
_NEVER_FITS = "never_fits"
_UNREACHABLE = "unreachable"
_MOST_FORECAST = 32
"""Of so many equal jobs at most the starts are forecast; more are taken to go on as steadily."""

# There is something to do: the job's state is ahead of the attempt's, or the job is gone.
_JOB_MOVED = (
    Q(state="queued") & ~Q(jobs.is_in({JobState.PENDING}))
    | Q(state="running") & Q(jobs.is_in({*_JOB_ENDS, JobState.PENDING}))
    | Q(state="preparing") & Q(jobs.is_in({*_JOB_ENDS}))
)
_JOB_GONE = Q(state__in=("queued", "running"), job__isnull=True)


MOST_NEWS = 250
"""So many attempts are looked at together: thousands may end at once, and each takes some 16 KB meanwhile."""

JobTimes = tuple[datetime | None, datetime | None]
"""When a job began to run, and when it ended."""


@dataclass(frozen=True)
class News:
    """The live attempts of a run about which there is news, and their jobs and the status of these, by id.

    Attempts behind `go_on_after` may have news too; empty: there are none.
    """

    attempts: Sequence[Attempt]
    jobs: Mapping[str, Any]
    statuses: Mapping[str, JobStatus]
    go_on_after: str = ""

    @property
    def ended_jobs(self) -> Mapping[str, Any]:
        """The jobs that have ended. What a job left is looked at on its host before its end counts."""
        return {
            job_id: job for job_id, job in self.jobs.items() if (at := self.statuses[job_id]).has_ended and at.is_here
        }


@dataclass(frozen=True)
class Ended:
    """What is known of the jobs in news that have ended: their rows by id, and which logs were read to their end.

    `faults` says of attempts whose jobs succeeded why that does not count.
    """

    jobs: Mapping[str, Any] = field(default_factory=dict)
    logs: ReadLogs = field(default_factory=ReadLogs)
    faults: Mapping[str, handover.Fault] = field(default_factory=dict)


@dataclass(frozen=True)
class Loaded:
    """A snapshot, and the rows that applying a plan needs: steps by id, templates by name, job times by attempt."""

    run: Run
    spec: FlowSpec
    snapshot: Snapshot
    steps: Mapping[str, Step]
    templates: Mapping[str, Any]
    is_retry: bool
    job_times: Mapping[str, JobTimes]
    attempts: Sequence[Attempt]
    ended: Ended
    counts: StepCounts

    def left_nothing(self, attempt_id: str) -> bool:
        """Whether the job of an attempt that has ended is known to have left no output."""
        jobs = (self.ended.jobs.get(each.job_id or "") for each in self.attempts if each.pk == attempt_id)
        return any(job is not None and job.left_nothing for job in jobs)


def live_attempts_with_news(now: datetime) -> QuerySet[Attempt]:
    """Return live attempts, of all runs, about which there is something to do."""
    due = Q(remind_at__lte=now)
    return Attempt.objects.filter(is_live=True).filter(_JOB_MOVED | _JOB_GONE | due)


RUN_COLUMNS = tuple(field.attname for field in Run._meta.concrete_fields)


def run_of(columns: tuple[Any, ...]) -> Run:
    """Return the row of a run from its `RUN_COLUMNS`, with what belongs to it at hand."""
    run = Run.from_db(DEFAULT_DB_ALIAS, RUN_COLUMNS, columns)
    run.version = specs.version_of(run.version_id)
    run.flow = run.version.flow
    return run


def get_run(run_id: str) -> Run:
    """Return the row of a run, with what belongs to it at hand."""
    (run,) = _runs(run_id)
    return run


@prepared
def _runs(run_id: str) -> QuerySet[Run]:
    return Run.objects.select_related("flow", "version").defer("version__text", "version__spec").filter(pk=run_id)


@prepared
def _live_attempts(run_id: str) -> QuerySet[Attempt]:
    return Attempt.objects.filter(run=run_id, is_live=True).select_related("step")


@prepared
def _attempts_with_news(run_id: str, now: datetime, after: str) -> QuerySet[Attempt]:
    live = Attempt.objects.filter(run=run_id, is_live=True, pk__gt=after).select_related("step")
    with_news = live.filter(_JOB_MOVED | _JOB_GONE | Q(remind_at__lte=now) | Q(state="preparing"))
    return with_news.order_by("pk")[:MOST_NEWS]


def read_news(run: Run, now: datetime, *, after: str = "") -> News:
    """Return the next live attempts of a run with news behind an attempt; all of them when the run is cancelled."""
    go_on_after = ""
    if run.cancel_requested_at is None:
        attempts = _attempts_with_news(run.pk, now, after)
        if len(attempts) == MOST_NEWS:
            go_on_after = attempts[-1].pk
    else:
        attempts = _live_attempts(run.pk)
    rows = jobs.list_for_reading({attempt.job_id for attempt in attempts if attempt.job_id is not None})
    return News(attempts, rows, jobs.states_of_jobs(rows.values()), go_on_after)


def load(run: Run, now: datetime, news: News, ended: Ended, *, is_further: bool = False) -> Loaded:
    """Read as much of the rest of a run as a plan can do something about now.

    Only where it `is_further`, that includes steps behind others that may end without having begun.
    Whether outputs are still being stored is not asked: see `with_storing`.
    """
    spec, graph = specs.spec_of(run.version_id), specs.graph_of_run(run)
    is_retry = run.retry_requested_at is not None
    counts = known_runs.count(run)
    attempts, job_times = _attempts(news, ended, _stored_forecasts(run, graph, news))
    step_states = _steps(run, now, counts, news, is_further=is_further)
    reopened = {step.pk: step for step in step_states if is_retry and _is_reopened(run, graph, step)}
    rows = {step.pk: step for step in step_states if step.pk in reopened or not step.has_ended}
    steps = [_step_now(step, attempts.get(step.pk)) for step in rows.values()]
    around, template_rows = _surroundings(run, steps)
    idle = Counter(counts.live)
    idle.subtract(step.key for step in rows.values() if step.pk not in reopened)
    unread = counts.pending - Counter(step.key for step in step_states if step.state == StepState.PENDING)
    snapshot = Snapshot(
        graph=graph,
        steps=tuple(planner.as_reset(step) if step.id in reopened else step for step in steps),
        ended=_ended(counts, besides=reopened.values()),
        results=_results(run, graph),
        parameters=cast("Mapping[str, Value]", run.parameters),
        is_cancelled=run.cancel_requested_at is not None,
        cancel_reason=run.reason or planner.RUN_CANCELLED,
        to_reset=tuple(reopened),
        idle=idle,
        unread=unread,
        **around,
    )
    return Loaded(run, spec, snapshot, rows, template_rows, is_retry, job_times, news.attempts, ended, counts)


def with_storing(loaded: Loaded) -> Loaded:
    """Return what was loaded with the answer whether outputs are being stored; only a run that could end waits."""
    snapshot = replace(loaded.snapshot, is_storing=artifacts.is_storing(loaded.run.pk))
    return replace(loaded, snapshot=snapshot)


def with_refusals(loaded: Loaded, refused: Mapping[tuple[str, str], str]) -> Loaded:
    """Return the same with the reasons why datasets of steps cannot be brought, by step and template."""
    data = {at: replace(now, error=refused.get(at, "")) for at, now in loaded.snapshot.data.items()}
    return replace(loaded, snapshot=replace(loaded.snapshot, data=data))


def with_unreadable(loaded: Loaded, unreadable: Mapping[tuple[str, str], str]) -> Loaded:
    """Return the same with the reasons why steps cannot read what their parents left, by step and template."""
    known = {**loaded.snapshot.unreadable, **unreadable}
    return replace(loaded, snapshot=replace(loaded.snapshot, unreadable=known))


def around_next(loaded: Loaded, steps: Sequence[Step]) -> tuple[Snapshot, Loaded]:
    """Return what decides where steps would begin whose parents still run, and the same with their rows at hand."""
    now = tuple(_step_now(step, None) for step in steps)
    around, _ = _surroundings(loaded.run, now)
    snapshot = replace(loaded.snapshot, steps=now, **around)
    return snapshot, replace(loaded, steps={**loaded.steps, **{step.pk: step for step in steps}})


def _surroundings(run: Run, steps: Sequence[StepNow]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parts of a snapshot that say where steps can go, and the rows of the templates by name."""
    spec, graph = specs.spec_of(run.version_id), specs.graph_of_run(run)
    facts, found_templates = _templates(run, graph)
    keys = {step.key for step in steps}
    choosing = [node for node in graph.nodes if node.has_data and len(node.choices) > 1 and node.key in keys]
    data = _locate_data(run, spec, choosing, found_templates)
    starting = {step.key for step in steps if step.state in {StepState.PENDING, StepState.BACKOFF}}
    if choosing or any(node.has_own_size and node.moves_by_forecasts and node.key in starting for node in graph.nodes):
        facts = _with_capacity(facts, found_templates)
    forecasts, fault = _forecast(run, spec, graph, steps, found_templates)
    around = {"templates": facts, "data": data, "forecasts": forecasts, "forecast_fault": fault}
    return around, {name: template for name, (template, _) in found_templates.items()}


def _steps(run: Run, now: datetime, counts: StepCounts, news: News, *, is_further: bool) -> list[Step]:
    """Return the steps that something can happen to; all that are live, or all, when the run is to end or reopen."""
    if run.retry_requested_at is not None:
        return list(Step.objects.filter(run=run))
    if run.cancel_requested_at is not None:
        return list(Step.objects.filter(run=run).exclude(state__in=_ENDED_STEPS))
    changed_steps = [attempt.step for attempt in news.attempts]
    if counts.delayed:
        is_due = Q(not_before__isnull=True) | Q(not_before__lte=now)
        changed_steps += Step.objects.filter(is_due, run=run, state=StepState.BACKOFF)
    moving = Counter(step.key for step in changed_steps)
    graph, pending = specs.graph_of_run(run), counts.pending
    reached = planner.within_reach(graph, counts.live, moving, pending if is_further else {}) & pending.keys()
    if reached:
        alone = (node.key for node in graph.nodes if pending[node.key] == 1 and node.key not in reached)
        most = {} if is_further else planner.most_to_begin(graph, counts.live, pending, counts.ended)
        changed_steps += known_runs.read_pending(run, reached, alone, most)
    return sorted(changed_steps, key=lambda step: (step.position, step.index))


def _is_reopened(run: Run, graph: Graph, step: Step) -> bool:
    """Whether the retry that was asked for opens a step again."""
    if not run.retry_key:
        return step.state in _REOPENED
    is_named = step.key == run.retry_key and run.retry_index in {None, step.index}
    return is_named or step.key in graph.below(run.retry_key)


def _ended(counts: StepCounts, *, besides: Iterable[Step]) -> Mapping[str, Mapping[StepState, int]]:
    ended = dict(counts.ended)
    for step in besides:
        state = StepState(step.state)
        ended[step.key] = {**ended[step.key], state: ended[step.key][state] - 1}
    return ended


def _attempts(
    news: News, ended: Ended, forecasts: Mapping[str, Mapping[str, PlaceForecast]]
) -> tuple[dict[str, AttemptNow], dict[str, JobTimes]]:
    """Return the attempts with news by step; and the times of their jobs."""
    statuses = news.statuses
    preparing = [attempt.pk for attempt in news.attempts if attempt.state == AttemptState.PREPARING]
    inputs = _inputs(preparing)
    attempts = {
        attempt.step_id: _attempt_now(
            attempt, statuses.get(attempt.job_id or ""), inputs, ended, forecasts.get(attempt.pk, {})
        )
        for attempt in news.attempts
    }
    known = {each.pk: status for each in news.attempts if (status := statuses.get(each.job_id or "")) is not None}
    return attempts, {pk: (status.started_at, status.finished_at) for pk, status in known.items()}


def _attempt_now(
    attempt: Attempt,
    status: JobStatus | None,
    inputs: Mapping[str, InputsNow],
    ended: Ended,
    forecasts: Mapping[str, PlaceForecast],
) -> AttemptNow:
    row = ended.jobs.get(attempt.job_id or "")
    job = _job_now(status, left_nothing=row is not None and row.left_nothing) if status is not None else None
    if job is not None and (fault := ended.faults.get(attempt.pk)):
        job = replace(job, end=AttemptState.FAILED, failure=fault.failure, reason=fault.reason)
    return AttemptNow(
        id=attempt.pk,
        number=attempt.number,
        state=AttemptState(attempt.state),
        choice=attempt.choice,
        since=attempt.queued_at or attempt.created_at,
        inputs=inputs.get(attempt.pk, InputsNow(is_ready=True)),
        job=job,
        is_harvested=attempt.job_id in ended.logs.done,
        forecasts=forecasts,
    )


def _job_now(status: JobStatus, *, left_nothing: bool) -> JobNow:
    end, code, wait = _JOB_ENDS.get(status.state), status.reason_code, status.wait
    failure = None
    if status.has_reached_limit:
        end, failure = AttemptState.FAILED, FailureKind.TIMEOUT
    elif end is AttemptState.FAILED:
        failure = FailureKind(code) if code in set(FailureKind) else FailureKind.INFRASTRUCTURE
    return JobNow(
        is_placed=status.is_placed,
        end=end,
        failure=failure,
        reason=status.reason or wait.reason,
        never_fits=wait.reason if wait.reason_code == _NEVER_FITS else "",
        is_stopping=status.state is JobState.STOPPING,
        left_nothing=left_nothing,
    )


def _inputs(attempt_ids: Sequence[str]) -> dict[str, InputsNow]:
    if not attempt_ids:
        return {}
    inputs: dict[str, list[Any]] = {attempt_id: [] for attempt_id in attempt_ids}
    rows = Attempt.objects.filter(pk__in=attempt_ids).order_by("pk", "inputs__name")
    for attempt_id, state, name, error in rows.values_list("pk", "inputs__state", "inputs__name", "inputs__error"):
        inputs[attempt_id].append((state, name, error))
    return {attempt_id: _together(states) for attempt_id, states in inputs.items()}


def _together(states: Sequence[tuple[str | None, str, str]]) -> InputsNow:
    for state, name, error in states:
        if state == InputState.FAILED:
            return InputsNow(error=f"The dataset '{name}' could not be brought here: {error}")
    return InputsNow(is_ready=all(state in {None, InputState.READY} for state, _, _ in states))


def _step_now(step: Step, attempt: AttemptNow | None) -> StepNow:
    return StepNow(
        id=step.pk,
        key=step.key,
        index=step.index,
        state=StepState(step.state),
        attempts=step.attempt_count,
        choice=step.choice,
        failures={FailureKind(kind): count for kind, count in step.failures.items()},
        tried=tuple(Tried(**tried) for tried in step.tried),
        not_before=step.not_before,
        attempt=attempt,
    )


def _results(run: Run, graph: Graph) -> dict[str, list[Mapping[str, Value]]]:
    return {key: list(handover.find_measured(run.pk, key).values()) for key in sorted(graph.measured)}


_Template = tuple[Any, Sequence[str]]
"""The row of a template, and the cache sites that its jobs read; none if no step reads a dataset."""


def _templates(run: Run, graph: Graph) -> tuple[dict[str, TemplateNow], dict[str, _Template]]:
    """Return what is known about each place that the flow names or its run has, and those that exist."""
    facts: dict[str, TemplateNow] = {}
    template_of: dict[str, _Template] = {}
    known = specs.find_templates(run)
    for name in sorted(graph.templates):
        if (template := known.get(name)) is None:
            facts[name] = TemplateNow("does not exist", is_unknown=True)
            continue
        resource = template.resource
        is_away = resource.state == _UNREACHABLE
        why = f"cannot be reached ({resource.error})" if resource.error else "cannot be reached"
        sites = resource.sites if graph.has_data else []
        facts[name] = TemplateNow(why if is_away else "", is_simulated=resource.is_simulated, has_sites=bool(sites))
        template_of[name] = (template, sites)
    return facts, template_of


def _place_of(template: Any) -> tuple[str, str]:
    return template.pk, template.pool


def _with_capacity(facts: Mapping[str, TemplateNow], templates: Mapping[str, _Template]) -> dict[str, TemplateNow]:
    free = pool_places.find_with_capacity([template for template, _ in templates.values()])
    return {
        name: replace(fact, has_capacity=name in templates and _place_of(templates[name][0]) in free)
        for name, fact in facts.items()
    }


def _locate_data(
    run: Run, spec: FlowSpec, choosing: Sequence[Node], templates: Mapping[str, _Template]
) -> dict[tuple[str, str], DataNow]:
    """Return where the cached datasets of steps are, for each of their templates whose jobs read cache sites."""
    commits = {
        node.key: [run.datasets[data.dataset]["commit"] for data in spec.step(node.key).data if data.cached]
        for node in choosing
    }
    commit_ids = {id_ for ids in commits.values() for id_ in ids}
    if not commit_ids:
        return {}
    known = locality.read_locality(commit_ids, {site for _, sites in templates.values() for site in sites})
    return {
        (node.key, choice.template): _data_now(known.arrival(commits[node.key], templates[choice.template][1]))
        for node in choosing
        for choice in node.choices
        if commits[node.key] and choice.template in templates and templates[choice.template][1]
    }


def may_forecast(run: Run) -> bool:
    """Whether reading a run may forecast where its steps are done first, which can take seconds."""
    return specs.graph_of_run(run).uses_forecasts


def _forecast(
    run: Run, spec: FlowSpec, graph: Graph, steps: Sequence[StepNow], templates: Mapping[str, _Template]
) -> tuple[dict[tuple[str, str], PlaceForecast], str]:
    """Return what the jobs of steps that may start now may expect at their templates, where that decides.

    Where it cannot be found out: why. That is recorded, and no step waits for it.
    """
    if run.cancel_requested_at is not None or not graph.uses_forecasts:
        return {}, ""
    counts = Counter(step.key for step in steps if step.state in {StepState.PENDING, StepState.BACKOFF})
    asked = {}
    for node in graph.nodes:
        names = [choice.template for choice in node.choices if choice.template in templates]
        templates_known = {name: templates[name][0] for name in names}
        if node.uses_forecasts and counts[node.key] and templates_known:
            asked[node.key] = (
                _new_job(run, spec.step(node.key), min(counts[node.key], _MOST_FORECAST)),
                templates_known,
            )
    if not asked:
        return {}, ""
    made = isolation.for_each(failures.FORECAST, [run.pk], lambda _: places.forecast_places(asked))
    if not made:
        (failure,) = isolation.find([failures.FORECAST], [run.pk])
        return {}, failure.error
    prices = {name: template.price_per_hour for name, (template, _) in templates.items()}
    return {
        (key, name): PlaceForecast(
            tuple(place.starts_in_s), place.run_s, None if (price := prices[name]) is None else float(price)
        )
        for (key, name), place in made[0].items()
    }, ""


def _new_job(run: Run, step_spec: StepSpec, count: int) -> NewJob:
    return NewJob(
        project_id=run.project_id,
        project=run.project.name,
        command=step_spec.command,
        flow=run.flow.name,
        step=step_spec.name,
        commits=[run.datasets[data.dataset]["commit"] for data in step_spec.data],
        count=count,
        replicas=step_spec.replicas,
        placing=Placing.read(step_spec.placing),
        priority=step_spec.priority,
        is_preemptible=step_spec.preemptible,
        timeout_s=step_spec.timeout,
        simulated_duration_s=step_spec.simulated_duration,
        image=step_spec.image if step_spec.size_keys else "",
        pools=specs.pools_of(run, step_spec.name),
    )


def _stored_forecasts(run: Run, graph: Graph, news: News) -> dict[str, dict[str, PlaceForecast]]:
    """Return, by attempt and template, what was forecast of jobs that wait since the run's newest attempt began.

    An older forecast does not know where that one went.
    """
    waiting = {
        job.name: attempt
        for attempt in news.attempts
        if attempt.state == AttemptState.QUEUED
        and (job := news.jobs.get(attempt.job_id or "")) is not None
        and graph.by_key[attempt.step.key].moves_by_forecasts
    }
    if not waiting:
        return {}
    newest = Attempt.objects.filter(run=run).aggregate(at=Max("created_at"))["at"]
    return {
        waiting[name].pk: _forecasts_of(run, waiting[name], stored)
        for name, stored in places.find_stored_places(waiting, made_after=newest).items()
    }


def _forecasts_of(run: Run, attempt: Attempt, stored: Sequence[StoredPlace]) -> dict[str, PlaceForecast]:
    names = specs.names_by_place(run, attempt.step.key)
    return {
        names.get((place.resource, place.pool), place.template): PlaceForecast(
            tuple(place.forecast.starts_in_s), place.forecast.run_s
        )
        for place in reversed(stored)
    }


def _data_now(arrival: DataArrival) -> DataNow:
    return DataNow(
        names=" and ".join(arrival.names),
        site=arrival.site,
        missing_bytes=arrival.missing_bytes,
        ready_in_s=arrival.ready_in_s,
        is_ready=arrival.is_ready,
        is_requested=arrival.is_requested,
        is_assumed=arrival.is_assumed,
        is_away=arrival.is_away,
    )
