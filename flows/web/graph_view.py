"""A run as a picture: boxes and arrows in the places that the layout gives them, each with its state and two lines."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from core import clock, units
from flows.engine import layout
from flows.engine.grids import count
from flows.engine.layout import NODE_HEIGHT, NODE_WIDTH
from flows.engine.spec import FlowSpec, StepSpec
from flows.models import AttemptInput, InputState, Run
from flows.selectors.runs import StepView
from flows.services.snapshots import DEFAULT_TEMPLATE
from web.looks import look_of

FOLDED_ABOVE = 12
"""A step with more instances than this is drawn as one box that counts them."""

_MOST_LETTERS = 30
_WORST_FIRST = ("failed", "running", "backoff", "queued", "preparing", "pending", "cancelled", "skipped", "succeeded")
_INPUT_STATES = {InputState.PENDING: "preparing", InputState.FAILED: "failed"}


@dataclass(frozen=True)
class Box:
    """One box. A click shows the step behind it; that of a dataset (no `step`) leads to `link`."""

    name: str
    state: str
    first_line: str = ""
    second_line: str = ""
    note: str = ""
    step: str = ""
    index: int | None = None
    link: str = ""
    x: int = 0
    y: int = 0


@dataclass(frozen=True)
class GraphView:
    """The whole picture. `arrows` are SVG paths."""

    width: int
    height: int
    boxes: Sequence[Box]
    arrows: Sequence[str]
    box_width: int = NODE_WIDTH
    box_height: int = NODE_HEIGHT


@dataclass(frozen=True)
class _Part:
    """A box, its name in the layout, and the names of those before it."""

    key: str
    parents: Sequence[str]
    box: Box


def draw_run(run: Run, spec: FlowSpec, steps: Sequence[StepView], inputs: Sequence[AttemptInput]) -> GraphView:
    """Draw a run: the datasets that it reads, then its steps."""
    said = {step.name: step for step in spec.steps}
    members: dict[str, list[StepView]] = {step.name: [] for step in spec.steps}
    for step in steps:
        members[step.key].append(step)
    boxes = {key: _boxes_of(said[key], instances) for key, instances in members.items()}
    parts = [_dataset_part(run, reference, inputs) for reference in sorted(run.datasets)]
    for key, named in boxes.items():
        parents = [name for parent in said[key].after for name in boxes[parent]]
        parents += [f"data:{item.dataset}" for item in said[key].data if item.dataset in run.datasets]
        parts += [_Part(name, list(dict.fromkeys(parents)), box) for name, box in named.items()]
    return _place(parts)


def draw_flow(spec: FlowSpec, places: Mapping[str, Sequence[int]] | None = None) -> GraphView:
    """Draw a flow that does not run: what it reads, its steps, and where each may run; where somebody put them."""
    datasets = sorted({item.dataset for step in spec.steps for item in step.data})
    parts = [
        _Part(f"data:{name}", [], Box(_cut(name.partition("/")[2]), "", "dataset", note=name)) for name in datasets
    ]
    for step in spec.steps:
        parents = [*step.after, *(f"data:{item.dataset}" for item in step.data)]
        tries = f"{count(step):,} times" if step.grid else ""
        parts.append(
            _Part(step.name, list(dict.fromkeys(parents)), Box(_cut(step.name), "", _cut(_compute(step)), tries))
        )
    return _place(parts, places)


def label_of(step: StepView, said: StepSpec) -> str:
    """Return a step's name with what its grid gave it: `train lr=0.1`."""
    return " ".join([step.key, *(f"{key}={step.parameters.get(key)}" for key in said.grid)])


def _place(parts: Sequence[_Part], places: Mapping[str, Sequence[int]] | None = None) -> GraphView:
    picture = layout.lay_out({part.key: part.parents for part in parts})
    if places and all(part.key in places for part in parts):
        picture = layout.around([layout.Box(part.key, *places[part.key]) for part in parts])
    where = {box.key: box for box in picture.boxes}
    arrows = []
    for part in parts:
        for parent in part.parents:
            x1, y1 = where[parent].x + NODE_WIDTH, where[parent].y + NODE_HEIGHT // 2
            x2, y2 = where[part.key].x, where[part.key].y + NODE_HEIGHT // 2
            bend = (x2 - x1) // 2
            arrows.append(f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}")
    boxes = [replace(part.box, x=where[part.key].x, y=where[part.key].y) for part in parts]
    return GraphView(picture.width, picture.height, boxes, arrows)


def _boxes_of(said: StepSpec, members: Sequence[StepView]) -> Mapping[str, Box]:
    if len(members) <= FOLDED_ABOVE:
        return {f"{step.key}:{step.index}": _box_of(said, step) for step in members}
    counts = Counter(step.state for step in members)
    states = [state for state in _WORST_FIRST if counts[state]]
    words = ", ".join(f"{counts[state]:,} {look_of(state).word.lower()}" for state in states)
    name = f"{said.name}, {len(members):,} times"
    return {said.name: Box(_cut(name), states[0], _cut(words), note=words, step=said.name)}


def _box_of(said: StepSpec, step: StepView) -> Box:
    took = "" if step.started_at is None else _took(step)
    place = step.template or _compute(said)
    tried = step.decision.get("tried")
    if isinstance(tried, list) and tried:
        place = f"{tried[-1]['template']} → {place}"
    second = "" if step.state in {"succeeded", "running"} else step.reason
    if step.state == "pending" and not second and step.depends_on:
        second = f"waits for {', '.join(step.depends_on)}"
    return Box(
        name=_cut(label_of(step, said)),
        state=step.state,
        first_line=_cut(" · ".join(part for part in (place, took) if part)),
        second_line=_cut(second),
        note=second,
        step=step.key,
        index=step.index,
    )


def _dataset_part(run: Run, reference: str, inputs: Sequence[AttemptInput]) -> _Part:
    facts = run.datasets[reference]
    newest = next((item for item in inputs if item.reference == reference), None)
    state = "pending" if newest is None else _INPUT_STATES.get(InputState(newest.state), "succeeded")
    where = ""
    if newest is not None:
        where = f"cached at {newest.site}" if newest.is_cached and newest.site else "its own copy"
    box = Box(
        name=_cut(facts["dataset"].partition("/")[2]),
        state=state,
        first_line=_cut(" · ".join(part for part in (f"@{facts['commit'][:8]}", where) if part)),
        second_line=_cut(newest.error if newest else ""),
        note=reference,
        link=f"/datasets/{facts['dataset']}/?ref={facts['commit']}",
    )
    return _Part(f"data:{reference}", [], box)


def _took(step: StepView) -> str:
    start = step.started_at or clock.now()
    return units.format_duration(max(0.0, ((step.finished_at or clock.now()) - start).total_seconds()))


def _compute(said: StepSpec) -> str:
    return ", then ".join(choice.template for choice in said.compute) or DEFAULT_TEMPLATE


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…"
