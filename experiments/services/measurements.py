"""Writing what experiments measured: points, thinned curves, last values. Inside the caller's transaction."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from core import orm
from core.prepared import insert
from experiments.engine import stretches
from experiments.engine.columns import Kind
from experiments.engine.log_tags import Record
from experiments.engine.stretches import Levels
from experiments.models import Experiment, MetricLast, MetricPoint, MetricStretch
from experiments.services import facts

# Points in one statement, few enough for `insert` to do it quickly: half of the time of a log with many goes there.
_POINTS = 100


@dataclass
class _Curve:
    """A metric of one experiment while points are added to it. `thinned` None: it was begun without thinning."""

    experiment: Experiment
    thinned: Levels | None
    step: int
    value: float | None
    at: datetime
    points: int


def write_points(measured: Iterable[tuple[Experiment, Sequence[Record]]], now: datetime) -> None:
    """Add measurements to the curves of experiments, in order. Without a step: the next one; without a moment: now."""
    measured = [(experiment, records) for experiment, records in measured if records]
    before = _last_of([experiment.pk for experiment, _ in measured])
    points: list[MetricPoint] = []
    complete: list[MetricStretch] = []
    curves: dict[tuple[str, str], _Curve] = {}
    for experiment, records in measured:
        for record in records:
            name = (experiment.pk, record.key)
            at = record.at or now
            curve = curves.get(name)
            if curve is None:
                curve = curves[name] = _curve_of(experiment, before.get(name), at)
            step = record.step if record.step is not None else curve.step + 1
            number = float(record.value)
            value = None if math.isnan(number) else number
            points.append(MetricPoint(experiment_id=experiment.pk, key=record.key, step=step, value=value, at=at))
            if curve.thinned is not None:
                point = stretches.Point(curve.points, step, number, round(at.timestamp() * 1_000_000))
                complete += [
                    MetricStretch(experiment=experiment, key=record.key, level=level, data=stretch.pack())
                    for level, stretch in curve.thinned.add(point)
                ]
            curve.step, curve.value, curve.at, curve.points = step, value, at, curve.points + 1
    lasts = [
        MetricLast(
            experiment=curve.experiment,
            key=key,
            step=curve.step,
            value=curve.value,
            at=curve.at,
            points=curve.points,
            open_stretches=b"" if curve.thinned is None else curve.thinned.pack(),
        )
        for (_, key), curve in curves.items()
    ]
    MetricStretch.objects.bulk_create(complete, batch_size=orm.BATCH_ROWS)
    for part in orm.in_batches(points, _POINTS):
        insert(part)
    MetricLast.objects.bulk_create(
        lasts,
        batch_size=orm.BATCH_ROWS,
        update_conflicts=True,
        unique_fields=["experiment", "key"],
        update_fields=["step", "value", "at", "points", "open_stretches"],
    )
    facts.write_keys(
        (curve.experiment.project_id, Kind.METRIC, name[1]) for name, curve in curves.items() if name not in before
    )


def _curve_of(experiment: Experiment, last: MetricLast | None, at: datetime) -> _Curve:
    """Return a curve to which points are added, after those that it has; a new one begins at a moment."""
    if last is None:
        return _Curve(experiment, Levels(), step=-1, value=None, at=at, points=0)
    thinned = Levels(bytes(last.open_stretches)) if last.open_stretches else None
    return _Curve(experiment, thinned, last.step, last.value, last.at, last.points)


def _last_of(experiment_ids: Sequence[str]) -> Mapping[tuple[str, str], MetricLast]:
    lasts: dict[tuple[str, str], MetricLast] = {}
    for batch in orm.in_batches(experiment_ids):
        for row in MetricLast.objects.filter(Q(experiment__in=batch)):
            lasts[row.experiment_id, row.key] = row
    return lasts


def storable(value: object) -> object:
    """JSON columns hold no NaN and no infinities."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
