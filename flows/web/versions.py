"""The versions of a flow, and what changed between two of them: one picture, and lines that came and went."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import render

from accounts.permissions import Level
from accounts.web.requests import PageRequest, text
from core.pagination import paginate
from flows.engine.layout import NODE_HEIGHT, NODE_WIDTH, Box, around, arrange
from flows.engine.spec import FlowSpec, StepSpec
from flows.engine.spec_diff import Difference, compare
from flows.selectors import flows as selectors
from flows.selectors.specs import spec_of

_ROWS = 50
_SIGNS = {"added": "+", "removed": "\N{MINUS SIGN}", "changed": "~"}
_MOST_LETTERS = 26
_AROUND = 3
_MOST_COMPARED = 1000
_MOST_SHOWN = 5000


def versions_page(request: PageRequest, project: str, name: str) -> HttpResponse:
    """List the versions; with `?base=` and `?version=` show what changed: as a picture, in words, as text."""
    flow = selectors.get_flow(actor=request.actor, project=project, name=name)
    versions = selectors.list_versions(actor=request.actor, flow=flow)
    page = paginate(versions, cursor=text(request, "cursor"), limit=_ROWS)
    after = selectors.get_version(actor=request.actor, flow=flow, version=text(request, "version"))
    base = text(request, "base") or str(max(1, after.number - 1))
    before = selectors.get_version(actor=request.actor, flow=flow, version=base)
    context: dict[str, object] = {
        "flow": flow,
        "project_name": project,
        "versions": page.items,
        "next_cursor": page.next_cursor,
        "before": before,
        "after": after,
        "may_write": (request.actor.level_in(flow.project_id) or 0) >= Level.WRITE,
    }
    if before.pk != after.pk:
        old, new = spec_of(before.pk), spec_of(after.pk)
        difference = compare(old, new)
        context |= {
            "difference": difference,
            "graph": draw_difference(old, new, difference),
            "lines": compare_texts(before.text, after.text),
        }
    return render(request, "flows/versions.html", context)


@dataclass(frozen=True)
class DiffBox:
    """A step in either version, where it stands, and how it differs (`kind` is empty where it does not)."""

    name: str
    kind: str
    words: str
    x: int
    y: int

    @property
    def sign(self) -> str:
        """The kind as a sign, so that it does not hang on colour."""
        return _SIGNS.get(self.kind, "")


@dataclass(frozen=True)
class DiffArrow:
    """An arrow as an SVG path; `kind` is added, removed or empty."""

    path: str
    kind: str


@dataclass(frozen=True)
class DiffGraph:
    """The picture of both versions at once."""

    width: int
    height: int
    boxes: Sequence[DiffBox]
    arrows: Sequence[DiffArrow]
    box_width: int = NODE_WIDTH
    box_height: int = NODE_HEIGHT


@dataclass(frozen=True)
class DiffLine:
    """A line of the text comparison: `kind` is added, removed, place (where the lines after it stand) or empty."""

    kind: str
    text: str


def draw_difference(before: FlowSpec, after: FlowSpec, difference: Difference) -> DiffGraph:
    """Draw the steps and arrows of both versions, each marked with the version that has it."""
    old, new = ({step.name: _parents(step) for step in spec.steps} for spec in (before, after))
    parents = {name: list(dict.fromkeys([*new.get(name, []), *old.get(name, [])])) for name in {**new, **old}}
    for names in list(parents.values()):
        parents |= {name: [] for name in names if name not in parents}
    picture = around([Box(name, *place) for name, place in arrange(parents).items()])
    where = {box.key: box for box in picture.boxes}
    arrows = [
        DiffArrow(_path(where[parent], where[name]), _kind_of(parent in old.get(name, []), parent in new.get(name, [])))
        for name, names in parents.items()
        for parent in names
    ]
    words = {change.name: ", ".join(change.keys) for change in difference.steps}
    boxes = [
        DiffBox(_cut(box.key), difference.kinds.get(box.key, ""), _cut(words.get(box.key, "")), box.x, box.y)
        for box in picture.boxes
    ]
    return DiffGraph(picture.width, picture.height, boxes, arrows)


def compare_texts(before: str, after: str) -> Sequence[DiffLine]:
    """Return the lines that differ with three lines around them.

    Comparing takes time with the square of the lines between the first and the last that differ, and worse. Where those
    are too many, all of them count as replaced.
    """
    old, new = before.splitlines(), after.splitlines()
    first, last = _common_ends(old, new)
    if max(len(old), len(new)) - first - last > _MOST_COMPARED:
        removed = [DiffLine("removed", f"-{line}") for line in old[first : len(old) - last]]
        added = [DiffLine("added", f"+{line}") for line in new[first : len(new) - last]]
        return [DiffLine("place", f"@@ from line {first + 1} on @@"), *removed, *added][:_MOST_SHOWN]
    start, end = max(0, first - _AROUND), max(0, last - _AROUND)
    kinds = {"+": "added", "-": "removed", "@": "place"}
    old, new = ([""] * start + lines[start : len(lines) - end] for lines in (old, new))
    lines = list(difflib.unified_diff(old, new, lineterm="", n=_AROUND))[2:]
    return [DiffLine(kinds.get(line[:1], ""), line) for line in lines]


def _common_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many lines at the beginning are the same, and how many of the others at the end."""
    shorter = min(len(old), len(new))
    first = next((place for place in range(shorter) if old[place] != new[place]), shorter)
    rest = shorter - first
    last = next((place for place in range(rest) if old[-1 - place] != new[-1 - place]), rest)
    return first, last


def _parents(step: StepSpec) -> list[str]:
    return [*step.after, *dict.fromkeys(item.dataset for item in step.data)]


def _kind_of(was: bool, is_now: bool) -> str:  # noqa: FBT001 (two facts in the order of time)
    return "" if was and is_now else "removed" if was else "added"


def _path(start: Box, end: Box) -> str:
    x1, y1 = start.x + NODE_WIDTH, start.y + NODE_HEIGHT // 2
    x2, y2 = end.x, end.y + NODE_HEIGHT // 2
    bend = max(28, abs(x2 - x1) // 2)
    return f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…"
