"""A flow as a picture: boxes and arrows where the layout puts them. `run_graph` does the same for a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from core import units
from flows.engine import layout
from flows.engine.grids import count
from flows.engine.layout import NODE_HEIGHT, NODE_WIDTH
from flows.engine.spec import FlowSpec, StepSpec
from flows.selectors.specs import DEFAULT_TEMPLATE

_MOST_LETTERS = 30
MOST_LETTERS_OF_NAME = 22
"""How many letters of a name fit into a box that is drawn without script, beside the icon of its state."""
_WIDEST_SHRUNK = 1180 / 0.7


@dataclass(frozen=True)
class Slice:
    """One state's part of the bar of a box that stands for many steps; `start` and `width` in pixels."""

    state: str
    count: int
    start: float
    width: float


@dataclass(frozen=True)
class NodeBox:
    """One box. A click shows the step or the `group` of steps behind it; that of a dataset (neither) leads to `link`.

    `bar` is empty but for a group. `is_critical`: the run takes as long as it does because of this step.
    """

    name: str
    state: str
    first_line: str = ""
    second_line: str = ""
    note: str = ""
    step: str = ""
    index: int | None = None
    group: str = ""
    link: str = ""
    bar: Sequence[Slice] = ()
    is_critical: bool = False
    key: str = ""
    x: int = 0
    y: int = 0


@dataclass(frozen=True)
class GraphView:
    """The whole picture. `arrows` are SVG paths, `edges` the same as pairs of keys."""

    width: int
    height: int
    boxes: Sequence[NodeBox]
    arrows: Sequence[str]
    edges: Sequence[tuple[str, str]]
    box_width: int = NODE_WIDTH
    box_height: int = NODE_HEIGHT

    @property
    def can_shrink(self) -> bool:
        """Whether the picture fits a page of 1,440 pixels drawn at 70 %, where its smallest text is 8 pixels high."""
        return self.width <= _WIDEST_SHRUNK


@dataclass(frozen=True)
class Part:
    """A box, its name in the layout, and the names of those before it."""

    key: str
    parents: Sequence[str]
    box: NodeBox


def draw_flow(spec: FlowSpec, places: Mapping[str, Sequence[int]] | None = None) -> GraphView:
    """Draw a flow that does not run: what it reads, its steps, and where each may run; where somebody put them."""
    datasets = sorted({item.dataset for step in spec.steps for item in step.data})
    parts = [
        Part(f"data:{name}", [], NodeBox(cut(name.partition("/")[2]), "", "dataset", note=name)) for name in datasets
    ]
    for step in spec.steps:
        parents = [*step.after, *(f"data:{item.dataset}" for item in step.data)]
        tries = units.count_of(count(step), "time") if step.is_fan else ""
        parts.append(
            Part(
                step.name,
                list(dict.fromkeys(parents)),
                NodeBox(cut(step.title or step.name), "", cut(compute_of(step)), tries, note=step.name),
            )
        )
    return place(parts, places)


def place(parts: Sequence[Part], places: Mapping[str, Sequence[int]] | None = None) -> GraphView:
    """Put every box where the layout, or somebody, wants it, and draw the arrows between them."""
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
    boxes = [replace(part.box, key=part.key, x=where[part.key].x, y=where[part.key].y) for part in parts]
    edges = [(parent, part.key) for part in parts for parent in part.parents]
    return GraphView(picture.width, picture.height, boxes, arrows, edges)


def compute_of(spec: StepSpec) -> str:
    """Return the templates of a step in order, or the size in place of them, as text."""
    return ", then ".join(choice.template for choice in spec.compute) or _size_of(spec) or DEFAULT_TEMPLATE


def _size_of(spec: StepSpec) -> str:
    gpus = "" if spec.gpus is None else f"{spec.gpus:g} GPU"
    cpu = "" if spec.cpu is None else f"{spec.cpu:g} CPU"
    memory = "" if spec.memory is None else units.format_memory(spec.memory)
    resource = f"on {spec.resource}" if spec.resource else ""
    pools = f"in {', then '.join(spec.pools)}" if spec.pools else ""
    return " ".join(filter(None, [", ".join(filter(None, [gpus, cpu, memory])), resource, pools]))


def cut(text: str, most: int = _MOST_LETTERS) -> str:
    """Shorten a line to what a box holds."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
