"""Writing what experiments measured: points, thinned curves, last values. Inside the caller's transaction."""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from django.db.models import Q

from core import orm
from experiments.engine import stretches
from experiments.engine.columns import Kind
from experiments.engine.log_tags import Record
from experiments.engine.stretches import Levels
from experiments.models import Experiment, MetricLast, MetricPoint, MetricStretch
from experiments.services import facts


def write_points(measured: Iterable[tuple[Experiment, Sequence[Record]]], now: datetime) -> None:
    """Add measurements to the curves of experiments, in order. Without a step: the next one; without a moment: now."""
    measured = [(experiment, records) for experiment, records in measured if records]
    before = _last_of([experiment.pk for experiment, _ in measured])
    points: list[MetricPoint] = []
    complete: list[MetricStretch] = []
    lasts: dict[tuple[str, str], MetricLast] = {}
    levels: dict[tuple[str, str], Levels | None] = {}
    for experiment, records in measured:
        for record in records:
            name = (experiment.pk, record.key)
            last = lasts.get(name) or before.get(name)
            step = record.step if record.step is not None else (last.step + 1 if last else 0)
            value = float(record.value)
            point = MetricPoint(
                experiment=experiment,
                key=record.key,
                step=step,
                value=None if math.isnan(value) else value,
                at=record.at or now,
            )
            points.append(point)
            place = last.points if last else 0
            lasts[name] = MetricLast(
                experiment=experiment, key=record.key, step=step, value=point.value, at=point.at, points=place + 1
            )
            if name not in levels:
                levels[name] = _levels_of(last)
            if (thinned := levels[name]) is not None:
                added = thinned.add(stretches.Point(place, step, value, round(point.at.timestamp() * 1_000_000)))
                complete += [
                    MetricStretch(experiment=experiment, key=record.key, level=level, data=stretch.pack())
                    for level, stretch in added
                ]
    for name, thinned in levels.items():
        lasts[name].open_stretches = b"" if thinned is None else thinned.pack()
    MetricStretch.objects.bulk_create(complete, batch_size=orm.BATCH_ROWS)
    MetricPoint.objects.bulk_create(points, batch_size=orm.BATCH_ROWS)
    MetricLast.objects.bulk_create(
        lasts.values(),
        batch_size=orm.BATCH_ROWS,
        update_conflicts=True,
        unique_fields=["experiment", "key"],
        update_fields=["step", "value", "at", "points", "open_stretches"],
    )
    facts.write_keys(
        (last.experiment.project_id, Kind.METRIC, last.key) for name, last in lasts.items() if name not in before
    )


def _levels_of(last: MetricLast | None) -> Levels | None:
    """Return where the thinning of a curve goes on; None for one that was begun without it."""
    if last is None:
        return Levels()
    return Levels(bytes(last.open_stretches)) if last.open_stretches else None


def _last_of(experiment_ids: Sequence[str]) -> Mapping[tuple[str, str], MetricLast]:
    lasts: dict[tuple[str, str], MetricLast] = {}
    for batch in orm.in_batches(experiment_ids):
        for row in MetricLast.objects.filter(Q(experiment__in=batch)):
            lasts[row.experiment_id, row.key] = row
    return lasts


def storable(value: object) -> object:
    """JSON columns hold no NaN and no infinities."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
