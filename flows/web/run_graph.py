"""A run as a picture, and where the links in it lead: to the same page, with another step or group in its panel.

Each step has its state and two lines; what is many and alike is one box that counts.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from urllib.parse import urlencode

from django.http import HttpRequest

from core import units
from flows.engine.layout import NODE_WIDTH
from flows.engine.spec import FlowSpec, StepSpec
from flows.models import AttemptInput, InputState, Run
from flows.selectors.runs import StepView
from flows.web.graph_view import GraphView, NodeBox, Part, Slice, compute_of, cut, place
from web.looks import look_of

FOLDED_ABOVE = 12
"""More steps than this that are alike (a grid, or a fan: same parents, same children) are drawn as one box."""

WORST_FIRST = ("failed", "running", "backoff", "queued", "preparing", "pending", "cancelled", "skipped", "succeeded")
_INPUT_STATES = {InputState.PENDING: "preparing", InputState.FAILED: "failed"}
_BAR_WIDTH = NODE_WIDTH - 26
_OF_PANEL = ("step", "index", "group", "tab", "attempt", "file")


def draw_run(
    run: Run,
    spec: FlowSpec,
    steps: Sequence[StepView],
    inputs: Sequence[AttemptInput],
    *,
    critical: Collection[tuple[str, int]] = (),
    opened: Collection[str] = (),
) -> GraphView:
    """Draw a run: the datasets that it reads, then its steps.

    `critical` names instances by key and index; `opened` the groups of which every step is drawn.
    """
    specs = {step.name: step for step in spec.steps}
    groups = group_steps(spec, steps)
    names: dict[str, list[str]] = defaultdict(list)
    boxes: dict[str, tuple[NodeBox, str]] = {}
    for name, members in groups.items():
        if len(members) > FOLDED_ABOVE and name not in opened:
            box = _folded(name, members, is_critical=any((step.key, step.index or 0) in critical for step in members))
            boxes[f"group:{name}"] = (box, members[0].key)
            for key in dict.fromkeys(step.key for step in members):
                names[key].append(f"group:{name}")
            continue
        for step in members:
            key = f"step:{step.key}:{step.index or 0}"
            is_critical = (step.key, step.index or 0) in critical
            boxes[key] = (_box_of(specs[step.key], step, is_critical=is_critical), step.key)
            names[step.key].append(key)
    parts = [_dataset_part(run, reference, inputs) for reference in sorted(run.datasets)]
    for key, (box, step_key) in boxes.items():
        parents = [name for parent in specs[step_key].after for name in names[parent]]
        parents += [f"data:{item.dataset}" for item in specs[step_key].data if item.dataset in run.datasets]
        parts.append(Part(key, list(dict.fromkeys(parents)), box))
    return place(parts)


def group_steps(spec: FlowSpec, steps: Sequence[StepView]) -> Mapping[str, list[StepView]]:
    """Return steps that are alike together, by the name of the first: those of a grid, and those of a fan."""
    children: dict[str, set[str]] = {step.name: set() for step in spec.steps}
    for step in spec.steps:
        for parent in step.after:
            children[parent].add(step.name)
    likeness: dict[object, str] = {}
    group_of: dict[str, str] = {}
    for step in spec.steps:
        neighbours = (
            frozenset(step.after),
            frozenset(children[step.name]),
            frozenset(data.dataset for data in step.data),
        )
        is_alone = step.is_fan or not (step.after or children[step.name])
        group_of[step.name] = step.name if is_alone else likeness.setdefault(neighbours, step.name)
    groups: dict[str, list[StepView]] = {}
    for member in steps:
        groups.setdefault(group_of[member.key], []).append(member)
    return groups


def name_of(name: str, members: Sequence[StepView]) -> str:
    """Return what a group is called: `train, 300 times` for a grid, `part-001 and 97 others` for a fan."""
    if all(step.key == name for step in members):
        return f"{name}, {len(members):,} times"
    return f"{name} and {len(members) - 1:,} others"


def count_states(members: Sequence[StepView]) -> list[tuple[str, int]]:
    """Return how many steps are in each state, the worst first."""
    counts = Counter(step.state for step in members)
    return [(state, counts[state]) for state in WORST_FIRST if counts[state]]


def slices_of(members: Sequence[StepView], width: float = _BAR_WIDTH) -> list[Slice]:
    """Return the states of many steps as one bar."""
    slices, start = [], 0.0
    for state, number in count_states(members):
        part = width * number / len(members)
        slices.append(Slice(state, number, round(start, 1), round(part, 1)))
        start += part
    return slices


def to_json(graph: GraphView) -> dict[str, object]:
    """Return what the script in the page draws."""
    return {
        "width": graph.width,
        "height": graph.height,
        "nodes": [_node(box) for box in graph.boxes],
        "looks": {state: asdict(look_of(state)) for state in sorted({box.state for box in graph.boxes})},
        "edges": list(graph.edges),
    }


def _node(box: NodeBox) -> dict[str, object]:
    return {
        "id": box.key,
        "kind": "group" if box.group else "command" if box.step else "dataset",
        "title": box.name,
        "subtitle": box.first_line,
        "note": box.second_line,
        "said": box.note if box.note != box.second_line else "",
        "state": box.state,
        "bar": [[look_of(part.state).css, part.start, part.width] for part in box.bar],
        "isCritical": box.is_critical,
        "step": box.step,
        "index": box.index,
        "group": box.group,
        "link": box.link,
        "x": box.x,
        "y": box.y,
    }


def _folded(name: str, members: Sequence[StepView], *, is_critical: bool) -> NodeBox:
    counts = count_states(members)
    words = ", ".join(f"{number:,} {look_of(state).word.lower()}" for state, number in counts)
    return NodeBox(
        cut(name_of(name, members)),
        counts[0][0],
        cut(words),
        note=words,
        group=name,
        bar=slices_of(members),
        is_critical=is_critical,
    )


def _box_of(spec: StepSpec, step: StepView, *, is_critical: bool) -> NodeBox:
    times = step.times
    ran = f"ran {units.format_duration(times.ran_s)}" if times and times.ran_s is not None else ""
    where = step.template or compute_of(spec)
    tried = step.decision.get("tried")
    if isinstance(tried, list) and tried:
        where = f"{tried[-1]['template']} → {where}"
    second = "" if step.state_shown in {"succeeded", "running"} else step.reason
    if step.state == "pending" and not second and step.depends_on:
        second = f"waits for {', '.join(step.depends_on)}"
    second = second or ("simulated" if step.is_simulated else "")
    return NodeBox(
        name=cut(step.title),
        state=step.state,
        first_line=cut(" · ".join(part for part in (where, ran) if part)),
        second_line=cut(second),
        note=second,
        step=step.key,
        index=step.index,
        is_critical=is_critical,
    )


def _dataset_part(run: Run, reference: str, inputs: Sequence[AttemptInput]) -> Part:
    facts = run.datasets[reference]
    newest = next((item for item in inputs if item.reference == reference), None)
    state = "pending" if newest is None else _INPUT_STATES.get(InputState(newest.state), "succeeded")
    where = ""
    if newest is not None:
        where = f"cached at {newest.site}" if newest.is_cached and newest.site else "its own copy"
    box = NodeBox(
        name=cut(facts["dataset"].partition("/")[2]),
        state=state,
        first_line=cut(" · ".join(part for part in (f"@{facts['commit'][:8]}", where) if part)),
        second_line=cut(newest.error if newest else ""),
        note=reference,
        link=f"/datasets/{facts['dataset']}/?ref={facts['commit']}",
    )
    return Part(f"data:{reference}", [], box)


class RunLinks:
    """Makes the addresses for one request. Everything else that its address says stays."""

    def __init__(self, request: HttpRequest) -> None:
        query = request.GET.copy()
        for name in _OF_PANEL:
            query.pop(name, None)
        self._query = f"{query.urlencode()}&" if query else ""

    def step(self, key: str, index: int | None, **more: object) -> str:
        """Return the address that shows a step; `more` says which tab, attempt or file of it."""
        asked = {"step": key, **({} if index is None else {"index": index}), **more}
        return f"?{self._query}{urlencode(asked)}#run-step"

    def box(self, box: NodeBox) -> str:
        """Return the address behind a box of the graph."""
        if box.group:
            return self.group(box.group)
        return self.step(box.step, box.index) if box.step else box.link

    def group(self, name: str) -> str:
        """Return the address that shows a group of steps."""
        return f"?{self._query}{urlencode({'group': name})}#run-step"
