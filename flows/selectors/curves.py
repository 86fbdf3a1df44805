"""Reads of what experiments measured over time, thinned out to what a chart can show."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from accounts.actor import Actor
from accounts.permissions import require
from flows import permissions
from flows.models import Experiment, MetricLast, MetricPoint
from flows.selectors import measurements

MAX_POINTS = 2000
_BATCH = 5000

_Row = tuple[int, float | None, datetime]


@dataclass(frozen=True)
class Point:
    """One measurement. `value` is a text for NaN and the infinities."""

    step: int
    value: float | str
    at: datetime


@dataclass(frozen=True)
class Curve:
    """The points of one metric, thinned out where there are many: `total` counts all of them."""

    key: str
    points: Sequence[Point]
    total: int


def read_curve(*, actor: Actor, experiment: Experiment, key: str) -> Curve:
    """Return the points of a metric; of many, the lowest, the highest and the last of each stretch."""
    return read_curves(actor=actor, experiments=[experiment], key=key)[0]


def read_curves(*, actor: Actor, experiments: Sequence[Experiment], key: str, most: int = MAX_POINTS) -> list[Curve]:
    """Return a metric's curve of each experiment, of about `most` points at most, in one query."""
    for project_id in {experiment.project_id for experiment in experiments}:
        require(actor, permissions.VIEW_FLOWS, project_id)
    points = MetricPoint.objects.filter(experiment__in=[row.pk for row in experiments], key=key)
    values = points.order_by("experiment_id", "id").values_list("experiment_id", "step", "value", "at")
    found = {
        experiment_id: _curve(key, [(step, value, at) for _, step, value, at in rows], most)
        for experiment_id, rows in groupby(values.iterator(chunk_size=_BATCH), key=lambda row: row[0])
    }
    return [found.get(row.pk) or Curve(key, [], 0) for row in experiments]


def list_curved(*, actor: Actor, experiments: Sequence[Experiment]) -> list[str]:
    """Return the metrics that some of the experiments measured more than once."""
    for project_id in {experiment.project_id for experiment in experiments}:
        require(actor, permissions.VIEW_FLOWS, project_id)
    drawn = MetricLast.objects.filter(experiment__in=[row.pk for row in experiments], points__gt=1)
    return list(drawn.order_by("key").values_list("key", flat=True).distinct())


def _curve(key: str, rows: Sequence[_Row], most: int) -> Curve:
    return Curve(
        key, [Point(step, measurements.shown(value), at) for step, value, at in _thin_out(rows, most)], len(rows)
    )


def _thin_out(rows: Sequence[_Row], most: int) -> Iterator[_Row]:
    if len(rows) <= most:
        yield from rows
        return
    stretches = most // 3
    for number in range(stretches):
        start, end = number * len(rows) // stretches, (number + 1) * len(rows) // stretches
        places = range(start, end)
        measured = [place for place in places if rows[place][1] is not None] or list(places)
        lowest = min(measured, key=lambda place: rows[place][1] or 0.0)
        highest = max(measured, key=lambda place: rows[place][1] or 0.0)
        yield from (rows[place] for place in sorted({lowest, highest, end - 1}))
