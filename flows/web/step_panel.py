"""What the side panel of a run shows about one step, or about many that are alike: one tab at a time."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from accounts.web.requests import PageRequest, text
from compute.errors import JobNotFound
from compute.selectors import jobs
from core.errors import InvalidInput
from experiments.selectors import artifacts, curves, experiments
from experiments.selectors.artifact_previews import preview_of
from flows.engine.spec import FlowSpec, StepSpec
from flows.engine.states import STEP_ENDS, StepState
from flows.models import Run
from flows.selectors import inputs, outputs
from flows.selectors import runs as selectors
from flows.selectors.runs import AttemptView, StepView
from flows.web.graph_view import Slice
from flows.web.run_graph import count_states, group_steps, name_of, slices_of
from scheduler.selectors.answers import find_proof
from web.series import Chart, Series

SHOWS_STEP, SHOWS_TAB = "X-Shows-Step", "X-Shows-Tab"
TABS = ("why", "log", "inputs", "outputs", "metrics", "events", "spec")
_WORTH_A_LOOK = ("failed", "running", "queued", "preparing", "backoff", "succeeded")
_WITH_LOG = frozenset({"running", "failed", "succeeded"})
_POINTS_OF_CHART = 600
_MOST_MEMBERS, _MOST_FILES, _MOST_CURVES, _MOST_EVENTS = 100, 300, 8, 300
_BAR = 1000


@dataclass(frozen=True)
class Group:
    """Steps that are alike, the worst first."""

    name: str
    title: str
    members: Sequence[StepView]
    count: int
    counts: Sequence[tuple[str, int]]
    slices: Sequence[Slice]


@dataclass(frozen=True)
class Panel:
    """What is chosen, and what its tab shows (`more`). Without a step or a group, nothing is."""

    tab: str = ""
    step: StepView | None = None
    spec: StepSpec | None = None
    attempt: AttemptView | None = None
    group: Group | None = None
    more: Mapping[str, object] = field(default_factory=dict)

    @property
    def tabs(self) -> Sequence[str]:
        """What can be looked at."""
        return TABS

    @property
    def name(self) -> str:
        """What the address calls the step, with its index."""
        return f"{self.step.key}:{self.step.index or 0}" if self.step else ""


def panel_of(request: PageRequest, run: Run, spec: FlowSpec, steps: Sequence[StepView]) -> Panel:
    """Return the panel that the address asks for: `group`, or `step` with `index`, `attempt` and `tab`."""
    group = text(request, "group")
    if group is not None:
        return Panel(group=_group_of(spec, steps, group))
    step = _chosen(request, steps)
    if step is None:
        return Panel()
    attempt = _attempt_of(request, step)
    # A log that somebody reads stays when the step is stopped or tried again.
    has_log = step.state in _WITH_LOG or (_is_shown(request, step) and request.headers.get(SHOWS_TAB) == "log")
    default = "log" if attempt is not None and has_log else "why"
    tab = text(request, "tab") or default
    if tab not in TABS:
        raise InvalidInput(f"There is no tab '{tab}'. There are: {', '.join(TABS)}.")
    step_spec = spec.step(step.key)
    panel = Panel(tab, step, step_spec, attempt)
    more = _MORE[tab](request, run, panel, steps)
    return Panel(tab, step, step_spec, attempt, more=more)


def number_in(request: PageRequest, name: str) -> int | None:
    """Return a whole number of the address; None when it is missing. Raises InvalidInput for anything else."""
    value = text(request, name)
    if value is not None and not value.isdecimal():
        raise InvalidInput(f"'{name}' must be a number.")
    return None if value is None else int(value)


def _is_shown(request: PageRequest, step: StepView) -> bool:
    return request.headers.get(SHOWS_STEP) == f"{step.key}:{step.index or 0}"


def _chosen(request: PageRequest, steps: Sequence[StepView]) -> StepView | None:
    """Return the step that the address names; without, the one that was shown before, or that needs attention first."""
    key, index = text(request, "step"), number_in(request, "index")
    if key is not None:
        named = [step for step in steps if step.key == key and (step.index is None or index in {None, step.index})]
        return named[0] if named else None
    for step in steps:
        if _is_shown(request, step):
            return step
    for state in _WORTH_A_LOOK:
        matching = [step for step in steps if step.state == state]
        if matching:
            return matching[-1] if state == "succeeded" else matching[0]
    return steps[0] if steps else None


def _attempt_of(request: PageRequest, step: StepView) -> AttemptView | None:
    number = number_in(request, "attempt")
    named = [attempt for attempt in step.attempts if attempt.number == number]
    attempts = named or step.attempts
    return attempts[-1] if attempts else None


def _group_of(spec: FlowSpec, steps: Sequence[StepView], name: str) -> Group | None:
    members = group_steps(spec, steps).get(name)
    if not members:
        return None
    counts = count_states(members)
    rank = {state: place for place, (state, _) in enumerate(counts)}
    worst = sorted(members, key=lambda step: rank[step.state])[:_MOST_MEMBERS]
    return Group(
        name=name,
        title=name_of(name, members),
        members=worst,
        count=len(members),
        counts=counts,
        slices=slices_of(members, _BAR),
    )


# --- what each tab shows


def _why(request: PageRequest, _run: Run, panel: Panel, steps: Sequence[StepView]) -> Mapping[str, object]:
    step = _step_in(panel)
    open_parents = [
        other for other in steps if other.key in step.depends_on and StepState(other.state) not in STEP_ENDS
    ]
    job = None
    is_waiting = panel.attempt is not None and panel.attempt.state == "queued"
    if is_waiting and panel.attempt is not None:
        with suppress(JobNotFound):
            job = jobs.get_job(actor=request.actor, name=panel.attempt.job_name)
    return {
        "open_parents": open_parents[:_MOST_MEMBERS],
        "proof": find_proof(job.workload) if job is not None else None,
        "is_waiting": is_waiting,
    }


def _nothing(*_: object) -> Mapping[str, object]:
    return {}


def _inputs(request: PageRequest, run: Run, panel: Panel, _steps: Sequence[StepView]) -> Mapping[str, object]:
    step = _step_in(panel)
    left = outputs.sum_outputs(actor=request.actor, run=run, keys=step.depends_on)
    read = inputs.list_inputs(actor=request.actor, run=run).filter(attempt__step__key=step.key)
    number = panel.attempt.number if panel.attempt else 0
    return {
        "read": read.filter(attempt__step__index=step.index or 0, attempt__number=number),
        "data": [(data, run.datasets.get(data.dataset)) for data in (panel.spec.data if panel.spec else ())],
        "parents": [(key, left.get(key)) for key in step.depends_on],
    }


def _outputs(request: PageRequest, _run: Run, panel: Panel, _steps: Sequence[StepView]) -> Mapping[str, object]:
    if panel.attempt is None:
        return {}
    experiment = experiments.get_experiment(actor=request.actor, experiment_id=panel.attempt.experiment_id)
    path, preview = text(request, "file"), None
    if path is not None:
        artifact, pieces = artifacts.open_artifact(actor=request.actor, experiment=experiment, path=path)
        preview = preview_of(experiment, artifact, pieces)
    return {
        "experiment": experiment,
        "files": artifacts.list_artifacts(actor=request.actor, experiment=experiment, limit=_MOST_FILES),
        "file_count": artifacts.count_artifacts(actor=request.actor, experiment=experiment),
        "path": path,
        "preview": preview,
    }


def _metrics(request: PageRequest, _run: Run, panel: Panel, _steps: Sequence[StepView]) -> Mapping[str, object]:
    if panel.attempt is None:
        return {}
    experiment = experiments.get_experiment(actor=request.actor, experiment_id=panel.attempt.experiment_id)
    curved = curves.list_curved(actor=request.actor, experiments=[experiment])
    return {
        "experiment": experiment,
        "metrics": experiments.metrics_of([experiment])[experiment.pk],
        "charts": [
            _chart(curve)
            for key in curved[:_MOST_CURVES]
            for curve in curves.read_curves(
                actor=request.actor, experiments=[experiment], key=key, most=_POINTS_OF_CHART
            )
        ],
        "curve_count": len(curved),
    }


def _events(request: PageRequest, run: Run, panel: Panel, _steps: Sequence[StepView]) -> Mapping[str, object]:
    step = _step_in(panel)
    events = selectors.list_events(actor=request.actor, run=run).filter(step_key=step.key, step_index=step.index or 0)
    return {"events": events[:_MOST_EVENTS]}


def _chart(curve: curves.Curve) -> Chart:
    values = [point.value if isinstance(point.value, float) else None for point in curve.points]
    return Chart(curve.key, [point.step for point in curve.points], "step", "", [Series(curve.key, 0, values)])


def _step_in(panel: Panel) -> StepView:
    if panel.step is None:
        raise InvalidInput("No step is chosen.")
    return panel.step


_MORE: Mapping[str, Callable[[PageRequest, Run, Panel, Sequence[StepView]], Mapping[str, object]]] = {
    "why": _why,
    "log": _nothing,
    "inputs": _inputs,
    "outputs": _outputs,
    "metrics": _metrics,
    "events": _events,
    "spec": _nothing,
}
