"""The steps of a run as a table: sorted, and limited to a state or to a part of the name, as the address says."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from accounts.web.requests import PageRequest, text
from core import clock
from flows.engine.spec import FlowSpec
from flows.selectors.runs import StepView
from flows.web.graph_view import label_of
from flows.web.run_graph import WORST_FIRST, count_states
from flows.web.run_links import RunLinks
from web.sorting import Sort, read_sort

_MOST_ROWS = 500


@dataclass(frozen=True)
class Line:
    """One step: its place in the flow, what it waited and how long it ran, all tries together."""

    place: int
    step: StepView
    label: str
    href: str
    waited_s: float | None
    ran_s: float | None


@dataclass(frozen=True)
class Table:
    """The lines that are shown, how many there are in all, and what can be chosen."""

    lines: Sequence[Line]
    found: int
    total: int
    states: Sequence[tuple[str, int]]
    sort: Sort
    state: str | None
    text: str


def table_of(request: PageRequest, spec: FlowSpec, steps: Sequence[StepView], links: RunLinks) -> Table:
    """Return the table that the address asks for: `sort`, `show` (a state) and `find` (a part of the name)."""
    sort = read_sort(request, {word: word for word in _KEYS}, "place")
    state, wanted = text(request, "show"), text(request, "find") or ""
    said = {step.name: step for step in spec.steps}
    lines = [
        _line(place, step, label_of(step, said[step.key]), links.step(step.key, step.index))
        for place, step in enumerate(steps, start=1)
    ]
    found = [
        line
        for line in lines
        if (state is None or line.step.state == state) and wanted.casefold() in line.label.casefold()
    ]
    key_of = _KEYS[sort.word]
    found.sort(key=lambda line: (key_of(line), line.place), reverse=sort.descending)
    return Table(found[:_MOST_ROWS], len(found), len(lines), count_states(steps), sort, state, wanted)


def _line(place: int, step: StepView, label: str, href: str) -> Line:
    now = clock.now()
    waits, runs = [], []
    for attempt in step.attempts:
        end = attempt.finished_at or now
        waits.append((attempt.started_at or end) - attempt.created_at)
        if attempt.started_at is not None:
            runs.append(end - attempt.started_at)
    return Line(place, step, label, href, _seconds(waits), _seconds(runs))


def _seconds(times: Sequence[timedelta]) -> float | None:
    return max(0.0, sum(times, timedelta()).total_seconds()) if times else None


_KEYS: Mapping[str, Callable[[Line], str | float]] = {
    "place": lambda line: line.place,
    "name": lambda line: line.label,
    "state": lambda line: WORST_FIRST.index(line.step.state),
    "template": lambda line: line.step.template or "",
    "tries": lambda line: len(line.step.attempts),
    "waited": lambda line: line.waited_s or 0.0,
    "ran": lambda line: line.ran_s or 0.0,
}
