"""When each step waited and ran, as bars on one scale."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from core import clock
from flows.engine.spec import FlowSpec
from flows.models import Run
from flows.selectors.runs import StepView
from flows.web.graph_view import label_of

SCALE = 1000


@dataclass(frozen=True)
class Bar:
    """A stretch of time from `start` over `width`, both of 1000."""

    start: float
    width: float
    state: str
    is_wait: bool


@dataclass(frozen=True)
class Row:
    """A step with its bars."""

    step: StepView
    label: str
    bars: Sequence[Bar]


def rows_of(run: Run, spec: FlowSpec, steps: Sequence[StepView]) -> list[Row]:
    """Return a row for each step, on the scale of the whole run."""
    said = {step.name: step for step in spec.steps}
    end = run.finished_at or clock.now()
    span = max(0.001, (end - run.created_at).total_seconds())

    def place(moment: datetime) -> float:
        return min(SCALE, max(0.0, SCALE * (moment - run.created_at).total_seconds() / span))

    rows = []
    for step in steps:
        bars = []
        for attempt in step.attempts:
            stop = place(attempt.finished_at or end)
            start = stop if attempt.started_at is None else place(attempt.started_at)
            asked = place(attempt.created_at)
            bars.append(Bar(asked, max(0.0, start - asked), "pending", is_wait=True))
            if attempt.started_at is not None:
                bars.append(Bar(start, max(3.0, stop - start), attempt.state, is_wait=False))
        rows.append(Row(step, label_of(step, said[step.key]), bars))
    return rows
