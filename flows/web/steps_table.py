"""The steps of a run as a table: sorted, and limited to a state or to a part of the name, as the address says."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from accounts.web.requests import PageRequest, text
from core.pagination import Sort, read_sort
from core.times import Times
from flows.selectors.runs import StepView
from flows.web.run_graph import WORST_FIRST, RunLinks, count_states

_MOST_ROWS = 500


@dataclass(frozen=True)
class StepLine:
    """One step: its place in the flow, and how long it waited and ran, all tries together. None: nothing of it yet."""

    place: int
    step: StepView
    href: str
    times: Times | None


@dataclass(frozen=True)
class Table:
    """The lines that are shown, how many there are in all, and what can be chosen."""

    lines: Sequence[StepLine]
    matching: int
    total: int
    states: Sequence[tuple[str, int]]
    sort: Sort
    state: str | None
    text: str


def table_of(request: PageRequest, steps: Sequence[StepView], links: RunLinks) -> Table:
    """Return the table that the address asks for: `sort`, `show` (a state) and `find` (a part of the name)."""
    sort = read_sort(request, {word: word for word in _KEYS}, "place")
    state, query = text(request, "show"), text(request, "find") or ""
    lines = [
        StepLine(place, step, links.step(step.key, step.index), step.times) for place, step in enumerate(steps, start=1)
    ]
    matching = [
        line
        for line in lines
        if (state is None or line.step.state == state)
        and query.casefold() in f"{line.step.title}\n{line.step.label}".casefold()
    ]
    key_of = _KEYS[sort.word]
    matching.sort(key=lambda line: (key_of(line), line.place), reverse=sort.descending)
    return Table(matching[:_MOST_ROWS], len(matching), len(lines), count_states(steps), sort, state, query)


_KEYS: Mapping[str, Callable[[StepLine], str | float]] = {
    "place": lambda line: line.place,
    "name": lambda line: line.step.title,
    "state": lambda line: WORST_FIRST.index(line.step.state),
    "template": lambda line: line.step.template or "",
    "tries": lambda line: len(line.step.attempts),
    "waited": lambda line: line.times.waited_s if line.times else 0.0,
    "ran": lambda line: (line.times.ran_s if line.times else None) or 0.0,
    "total": lambda line: line.times.total_s if line.times else 0.0,
}
