"""Reads of what experiments measured over time, thinned out to what a chart can show."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby

from accounts.permissions import Actor, require
from experiments import permissions
from experiments.engine import stretches
from experiments.engine.stretches import Levels, Stretch
from experiments.models import Experiment, MetricLast, MetricPoint, MetricStretch
from experiments.selectors import recorded

MAX_POINTS = 2000
_BATCH = 5000
_POINTS_OF_STRETCH = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
    """Return a metric's curve of each experiment, of about `most` points at most.

    Long curves were thinned out as they were recorded, so that one of a million points costs a few thousand rows.
    """
    for project_id in {experiment.project_id for experiment in experiments}:
        require(actor, permissions.VIEW_EXPERIMENTS, project_id)
    ids = [row.pk for row in experiments]
    most_parts = max(1, most // _POINTS_OF_STRETCH)
    thinned = _read_thinned(ids, key, most_parts)
    whole = _read_whole([pk for pk in ids if pk not in thinned], key, most, most_parts)
    by_id = whole | thinned
    return [by_id.get(pk) or Curve(key, [], 0) for pk in ids]


def _read_thinned(ids: Sequence[str], key: str, most_parts: int) -> dict[str, Curve]:
    """Return the curves that are read from their stretches."""
    lasts = MetricLast.objects.filter(experiment__in=ids, key=key).values_list(
        "experiment_id", "points", "open_stretches"
    )
    by_level: defaultdict[int, dict[str, tuple[int, Levels]]] = defaultdict(dict)
    for experiment_id, total, still_open in lasts:
        level = stretches.level_for(total, max(1, most_parts // 2))  # the next lower one has four times as many
        if level is not None and still_open:
            by_level[level][experiment_id] = total, Levels(bytes(still_open))
    curves: dict[str, Curve] = {}
    for level, longs in by_level.items():
        rows = MetricStretch.objects.filter(experiment__in=longs, key=key, level=level).order_by("experiment_id", "id")
        data: defaultdict[str, list[bytes]] = defaultdict(list)
        for experiment_id, packed in rows.values_list("experiment_id", "data"):
            data[experiment_id].append(bytes(packed))
        for experiment_id, (total, levels) in longs.items():
            parts = stretches.unpack(b"".join(data[experiment_id])) + levels.rest_above(level)
            points = [point for some in stretches.gather(parts, most_parts) for point in Stretch.join(some).points]
            curves[experiment_id] = Curve(key, [_point(point) for point in points], total)
    return curves


def _read_whole(ids: Sequence[str], key: str, most: int, most_parts: int) -> dict[str, Curve]:
    """Return the curves that are read point by point: short ones, and those that were recorded before any thinning."""
    points = MetricPoint.objects.filter(experiment__in=ids, key=key)
    values = points.order_by("experiment_id", "id").values_list("experiment_id", "step", "value", "at")
    curves: dict[str, Curve] = {}
    for experiment_id, rows in groupby(values.iterator(chunk_size=_BATCH), key=lambda row: row[0]):
        shown = [
            stretches.Point(place, step, math.nan if value is None else value, _microseconds(at))
            for place, (_, step, value, at) in enumerate(rows)
        ]
        total = len(shown)
        if total > most:
            shown = [point for some in stretches.gather(shown, most_parts) for point in Stretch.of(some).points]
        curves[experiment_id] = Curve(key, [_point(point) for point in shown], total)
    return curves


def list_curved(*, actor: Actor, experiments: Sequence[Experiment]) -> list[str]:
    """Return the metrics that some of the experiments measured more than once."""
    for project_id in {experiment.project_id for experiment in experiments}:
        require(actor, permissions.VIEW_EXPERIMENTS, project_id)
    drawn = MetricLast.objects.filter(experiment__in=[row.pk for row in experiments], points__gt=1)
    return list(drawn.order_by("key").values_list("key", flat=True).distinct())


def _point(point: stretches.Point) -> Point:
    value = None if math.isnan(point.value) else point.value
    return Point(point.step, recorded.shown(value), _EPOCH + timedelta(microseconds=point.at_us))


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
