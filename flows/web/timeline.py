"""When each step waited and ran, as bars on one scale. What is many and alike is one row."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from core import clock, units
from flows.engine.critical_path import CriticalPath, Span, find_path
from flows.engine.spec import FlowSpec
from flows.models import Run
from flows.selectors.runs import AttemptView, StepView
from flows.web.run_graph import FOLDED_ABOVE, WORST_FIRST, RunLinks, group_steps, name_of

_TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)
_MOST_TICKS = 6  # what is drawn of their labels on a narrow scale: run.scss
_SHORT_LABEL = 6  # letters
_PERCENT_PER_LETTER = 1.75


@dataclass(frozen=True)
class Bar:
    """A stretch of time from `start` over `width`, both in percent of the run. `words` fit into it."""

    start: float
    width: float
    state: str
    is_wait: bool
    title: str
    words: str = ""


@dataclass(frozen=True)
class TimelineRow:
    """A step, or a group of them, with its bars. `group` is empty for a step."""

    label: str
    href: str
    state: str
    bars: Sequence[Bar]
    step: StepView | None = None
    group: str = ""
    is_critical: bool = False


@dataclass(frozen=True)
class Tick:
    """A moment on the scale, in percent, and how long after the start it is."""

    place: float
    label: str


@dataclass(frozen=True)
class Timeline:
    """All rows, and the scale above them."""

    rows: Sequence[TimelineRow]
    ticks: Sequence[Tick]
    total: int

    @property
    def has_long_labels(self) -> bool:
        """Whether a label of the scale needs the width that "1 h 15 min" needs."""
        return any(len(tick.label) > _SHORT_LABEL for tick in self.ticks)

    def first(self, count: int | None) -> "Timeline":
        """Return it with no more rows than that; None: with all."""
        return replace(self, rows=self.rows[:count])


class _Scale:
    """From moments to percents of a run: the time since it was started, or since its first job where that is later."""

    def __init__(self, run: Run) -> None:
        self.start = run.created_at
        self.end = run.finished_at or clock.now()
        self._span = max(0.001, (self.end - self.start).total_seconds())

    def place(self, moment: datetime) -> float:
        return round(min(100.0, max(0.0, 100 * (moment - self.start).total_seconds() / self._span)), 2)

    def _whole_days(self) -> float:
        day = _TICKS[-1]
        return math.ceil(self._span / day / _MOST_TICKS) * day

    def ticks(self) -> list[Tick]:
        every = next((size for size in _TICKS if self._span / size <= _MOST_TICKS), self._whole_days())
        count = int(self._span // every)
        return [
            Tick(round(100 * number * every / self._span, 2), units.format_duration(number * every) if number else "0")
            for number in range(count + 1)
        ]


def draw_timeline(
    run: Run,
    spec: FlowSpec,
    steps: Sequence[StepView],
    path: CriticalPath,
    *,
    links: RunLinks,
    opened: Collection[str] = (),
) -> Timeline:
    """Return the rows of a run in the order of the flow; of the groups in `opened`, every step has its own."""
    scale, critical = _Scale(run), path.instances
    rows = []
    for name, members in group_steps(spec, steps).items():
        if len(members) > FOLDED_ABOVE and name not in opened:
            rows.append(replace(_group_row(name, members, scale, critical), href=links.group(name)))
            continue
        for step in members:
            bars = [bar for attempt in step.attempts for bar in _bars_of(attempt, scale)]
            is_critical = (step.key, step.index or 0) in critical
            href = links.step(step.key, step.index)
            rows.append(TimelineRow(step.title, href, step.state, bars, step, is_critical=is_critical))
    return Timeline(rows, scale.ticks(), len(rows))


def path_of(run: Run, steps: Sequence[StepView]) -> CriticalPath:
    """Return the chain of steps that made the run as long as it is."""
    spans = [
        Span(
            key=step.key,
            index=step.index or 0,
            parents=step.depends_on,
            waited_s=times.waited_s,
            ran_s=times.ran_s or 0.0,
            finished_at=step.finished_at,
        )
        for step in steps
        if (times := step.times) is not None
    ]
    return find_path(spans, run.finished_at or clock.now())


def _bars_of(attempt: AttemptView, scale: _Scale) -> list[Bar]:
    bars = []
    intervals = attempt.intervals
    for each in intervals:
        end = each.ended_at or scale.end
        begun = each.started_at or end
        waited = begun - each.queued_at
        start = scale.place(each.queued_at)
        if waited > timedelta(seconds=0.1):
            words = f"waited {_took(waited)} for {attempt.template}"
            bars.append(_bar(start, scale.place(begun) - start, "pending", words, is_wait=True))
        if each.started_at is not None:
            start = scale.place(each.started_at)
            state, words = "cancelled", f"ran {_took(end - begun)} on {attempt.template}, until it was evicted"
            if each is intervals[-1]:
                state, words = attempt.state, f"ran {_took(end - begun)} on {attempt.node or attempt.template}"
            bars.append(_bar(start, max(0.4, scale.place(end) - start), state, words, is_wait=False))
    return bars


def _bar(start: float, width: float, state: str, words: str, *, is_wait: bool) -> Bar:
    return Bar(
        start,
        round(width, 2),
        state,
        is_wait,
        words,
        words if is_wait and width > len(words) * _PERCENT_PER_LETTER else "",
    )


def _group_row(
    name: str, members: Sequence[StepView], scale: _Scale, critical: Collection[tuple[str, int]]
) -> TimelineRow:
    attempts = [attempt for step in members for attempt in step.attempts]
    states: Mapping[str, int] = {state: place for place, state in enumerate(WORST_FIRST)}
    worst = min((step.state for step in members), key=lambda state: states[state])
    bars = []
    started = [attempt.started_at for attempt in attempts if attempt.started_at is not None]
    if attempts:
        made = min(attempt.created_at for attempt in attempts)
        begun = min(started, default=scale.end)
        bars.append(_bar(scale.place(made), scale.place(begun) - scale.place(made), "pending", "waiting", is_wait=True))
    if started:
        end = max(attempt.finished_at or scale.end for attempt in attempts)
        start = scale.place(min(started))
        bars.append(_bar(start, max(0.4, scale.place(end) - start), worst, "the first to the last", is_wait=False))
    is_critical = any((step.key, step.index or 0) in critical for step in members)
    return TimelineRow(name_of(name, members), "", worst, bars, group=name, is_critical=is_critical)


def _took(time: timedelta) -> str:
    return units.format_duration(max(0.0, time.total_seconds()))
