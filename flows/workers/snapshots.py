"""Reading a run into the planner's snapshot: a fixed number of queries, and rows only of what can change now."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, cast

from django.db.models import Count, Q, QuerySet

from accounts.actor import Actor
from compute.errors import TemplateNotFound
from compute.selectors import jobs, templates
from compute.selectors.jobs import JobStatus
from compute.selectors.states import JobState
from core import orm
from experiments.selectors import artifacts, log_records
from flows.engine import names, planner
from flows.engine.expressions import Value
from flows.engine.graph import Graph
from flows.engine.planner import AttemptNow, InputsNow, JobNow, Snapshot, StepNow, TemplateNow
from flows.engine.spec import FlowSpec
from flows.engine.states import STEP_ENDS, AttemptState, FailureKind, StepState
from flows.engine.transitions import Tried
from flows.models import Attempt, InputState, Run, Step
from flows.selectors import measurements, specs

_SYSTEM = Actor.system("flow runs")
_ENDED_STEPS = sorted(state.value for state in STEP_ENDS)
_REOPENED = ("failed", "skipped", "cancelled")
_JOB_ENDS: Mapping[JobState, AttemptState] = {
    JobState.SUCCEEDED: AttemptState.SUCCEEDED,
    JobState.FAILED: AttemptState.FAILED,
    JobState.LOST: AttemptState.FAILED,
    JobState.CANCELLED: AttemptState.CANCELLED,
}
_ATTEMPT_COLUMNS = (
    "pk",
    "step_id",
    "number",
    "state",
    "choice",
    "queued_at",
    "created_at",
    "job_id",
)
_NEVER_FITS = "never_fits"
_UNREACHABLE = "unreachable"
# There is something to do: the job's state is ahead of the attempt's, or the job is gone.
_JOB_MOVED = Q(state="queued") & ~Q(jobs.is_in({JobState.PENDING})) | Q(state="running") & Q(
    jobs.is_in({*_JOB_ENDS, JobState.PENDING})
)
_JOB_GONE = Q(state__in=("queued", "running"), job__isnull=True)


JobTimes = tuple[datetime | None, datetime | None]
"""When a job began to run, and when it ended."""


@dataclass(frozen=True)
class Loaded:
    """A snapshot, and the rows that applying a plan needs: steps by id, and the times of jobs by attempt."""

    run: Run
    spec: FlowSpec
    snapshot: Snapshot
    steps: Mapping[str, Step]
    template_ids: Mapping[str, str]
    is_retry: bool
    job_times: Mapping[str, JobTimes]


def live_attempts_with_news(now: datetime) -> QuerySet[Attempt]:
    """Return live attempts, of all runs, about which there is something to do."""
    due = Q(remind_at__lte=now)
    return Attempt.objects.filter(is_live=True).filter(_JOB_MOVED | _JOB_GONE | due)


def ended_jobs(run_id: str) -> list[str]:
    """Return the jobs of a run that have ended and whose attempts are still live."""
    ended = Attempt.objects.filter(jobs.is_in(_JOB_ENDS), run=run_id, is_live=True)
    return [str(job_id) for job_id in ended.values_list("job_id", flat=True)]


def has_news(run_id: str, now: datetime) -> bool:
    """Whether a look at this run would find something to do."""
    wishes = Q(wake_at__lte=now) | Q(retry_requested_at__isnull=False)
    if Run.objects.filter(pk=run_id, is_live=True).filter(wishes).exists():
        return True
    return live_attempts_with_news(now).filter(run_id=run_id).exists()


def get_run(run_id: str) -> Run:
    """Return the row of a run, with what belongs to it at hand."""
    runs = Run.objects.select_related("flow", "project", "version").defer("version__text", "version__spec")
    return runs.get(pk=run_id)


def load(run: Run, now: datetime, faults: Mapping[str, str] = MappingProxyType({})) -> Loaded:
    """Read as much of the rest of a run as a plan can do something about now.

    `faults` says of attempts whose jobs succeeded why that does not count.
    """
    spec, graph = specs.spec_of(run.version_id), specs.graph_of(run.version_id)
    is_retry = run.retry_requested_at is not None
    counts = _count_steps(run)
    attempts, job_times = _attempts(run, now, faults)
    found = _steps(run, now, counts, attempts)
    reopened = {step.pk: step for step in found if is_retry and _is_reopened(run, graph, step)}
    rows = {step.pk: step for step in found if step.pk in reopened or not step.has_ended}
    steps = [_step_now(step, attempts.get(step.pk)) for step in rows.values()]
    facts, template_ids = _templates(graph)
    snapshot = Snapshot(
        graph=graph,
        steps=tuple(planner.as_reset(step) if step.id in reopened else step for step in steps),
        ended=_ended(counts, besides=reopened.values()),
        results=_results(run, graph),
        parameters=cast("Mapping[str, Value]", run.parameters),
        templates=facts,
        is_cancelled=run.cancel_requested_at is not None,
        to_reset=tuple(reopened),
        is_storing=artifacts.is_storing(run.pk),
        idle=_live(counts) - Counter(step.key for step in rows.values() if step.pk not in reopened),
    )
    return Loaded(run, spec, snapshot, rows, template_ids, is_retry, job_times)


def _count_steps(run: Run) -> dict[str, Counter[StepState]]:
    counts: dict[str, Counter[StepState]] = {}
    found = Step.objects.filter(run=run).order_by().values_list("key", "state")
    for key, state, count in found.annotate(count=Count("pk")):
        counts.setdefault(key, Counter())[StepState(state)] = count
    return counts


def _live(counts: Mapping[str, Counter[StepState]]) -> Counter[str]:
    return Counter({key: states.total() - sum(states[state] for state in STEP_ENDS) for key, states in counts.items()})


def _steps(
    run: Run, now: datetime, counts: Mapping[str, Counter[StepState]], attempts: Mapping[str, AttemptNow]
) -> list[Step]:
    """Return the steps that something can happen to; all that are live, or all, when the run is to end or reopen."""
    steps = Step.objects.filter(run=run)
    if run.retry_requested_at is not None:
        return list(steps)
    live = steps.exclude(state__in=_ENDED_STEPS)
    if run.cancel_requested_at is not None:
        return list(live)
    found = [step for batch in orm.in_batches(attempts) for step in live.filter(pk__in=batch)]
    if any(states[StepState.BACKOFF] for states in counts.values()):
        found += live.filter(Q(not_before__isnull=True) | Q(not_before__lte=now), state=StepState.BACKOFF)
    pending = {key: states[StepState.PENDING] for key, states in counts.items() if states[StepState.PENDING]}
    moving = Counter(step.key for step in found)
    reached = planner.within_reach(specs.graph_of(run.version_id), _live(counts), moving, pending) & pending.keys()
    if reached:
        found += live.filter(state=StepState.PENDING, key__in=reached)
    return sorted(found, key=lambda step: (step.position, step.index))


def _is_reopened(run: Run, graph: Graph, step: Step) -> bool:
    """Whether the retry that was asked for opens a step again."""
    if not run.retry_key:
        return step.state in _REOPENED
    is_named = step.key == run.retry_key and run.retry_index in {None, step.index}
    return is_named or step.key in graph.below(run.retry_key)


def _ended(
    counts: Mapping[str, Counter[StepState]], *, besides: Iterable[Step]
) -> Mapping[str, Mapping[StepState, int]]:
    ended = {key: Counter({state: states[state] for state in STEP_ENDS}) for key, states in counts.items()}
    for step in besides:
        ended[step.key][StepState(step.state)] -= 1
    return ended


def _attempts(run: Run, now: datetime, faults: Mapping[str, str]) -> tuple[dict[str, AttemptNow], dict[str, JobTimes]]:
    """Return by step the live attempts with news (all of them when the run is cancelled); and their jobs' times."""
    live = Attempt.objects.filter(run=run, is_live=True)
    if run.cancel_requested_at is None:
        live = live.filter(_JOB_MOVED | _JOB_GONE | Q(remind_at__lte=now) | Q(state="preparing"))
    rows = list(live.values(*_ATTEMPT_COLUMNS))
    statuses = jobs.states_of([row["job_id"] for row in rows if row["job_id"] is not None])
    inputs = _inputs([row["pk"] for row in rows if row["state"] == AttemptState.PREPARING])
    ended = [row["pk"] for row in rows if row["job_id"] in statuses and statuses[row["job_id"]].has_ended]
    read = log_records.find_read(names.EXPERIMENT_KIND, ended)
    attempts = {
        row["step_id"]: _attempt_now(row, statuses.get(row["job_id"]), inputs, read, faults.get(row["pk"], ""))
        for row in rows
    }
    known = {row["pk"]: statuses[row["job_id"]] for row in rows if row["job_id"] in statuses}
    return attempts, {pk: (status.started_at, status.finished_at) for pk, status in known.items()}


def _attempt_now(
    row: Mapping[str, Any],
    status: JobStatus | None,
    inputs: Mapping[str, InputsNow],
    read: Collection[str],
    fault: str,
) -> AttemptNow:
    job = _job_now(status) if status is not None else None
    if job is not None and fault:
        job = replace(job, end=AttemptState.FAILED, failure=FailureKind.INPUT_CHANGED, reason=fault)
    return AttemptNow(
        id=row["pk"],
        number=row["number"],
        state=AttemptState(row["state"]),
        choice=row["choice"],
        since=row["queued_at"] or row["created_at"],
        inputs=inputs.get(row["pk"], InputsNow(is_ready=True)),
        job=job,
        is_harvested=row["pk"] in read,
    )


def _job_now(status: JobStatus) -> JobNow:
    end, code, wait = _JOB_ENDS.get(status.state), status.reason_code, status.wait
    failure = None
    if end is AttemptState.FAILED:
        failure = FailureKind(code) if code in set(FailureKind) else FailureKind.INFRASTRUCTURE
    return JobNow(
        is_placed=status.is_placed,
        end=end,
        failure=failure,
        reason=status.reason or wait.reason,
        never_fits=wait.reason if wait.reason_code == _NEVER_FITS else "",
        is_stopping=status.state is JobState.STOPPING,
    )


def _inputs(attempt_ids: Sequence[str]) -> dict[str, InputsNow]:
    if not attempt_ids:
        return {}
    found: dict[str, list[Any]] = {attempt_id: [] for attempt_id in attempt_ids}
    rows = Attempt.objects.filter(pk__in=attempt_ids).order_by("pk", "inputs__name")
    for attempt_id, state, name, error in rows.values_list("pk", "inputs__state", "inputs__name", "inputs__error"):
        found[attempt_id].append((state, name, error))
    return {attempt_id: _together(states) for attempt_id, states in found.items()}


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
    return {key: list(measurements.of_step(run.pk, key).values()) for key in sorted(graph.measured)}


def _templates(graph: Graph) -> tuple[dict[str, TemplateNow], dict[str, str]]:
    """Return what is known about each template that the flow names, and the ids of those that exist."""
    facts: dict[str, TemplateNow] = {}
    ids: dict[str, str] = {}
    has_data = any(node.has_data for node in graph.nodes)
    for name in sorted({choice.template for node in graph.nodes for choice in node.choices}):
        try:
            template = templates.get_template(actor=_SYSTEM, full_name=name)
        except TemplateNotFound:
            facts[name] = TemplateNow("does not exist", is_unknown=True)
            continue
        resource = template.resource
        is_away = resource.state == _UNREACHABLE
        why = f"cannot be reached ({resource.error})" if resource.error else "cannot be reached"
        has_sites = has_data and bool(resource.sites)
        facts[name] = TemplateNow(why if is_away else "", is_simulated=resource.is_simulated, has_sites=has_sites)
        ids[name] = template.pk
    return facts, ids
