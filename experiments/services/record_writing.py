"""Writing what experiments record: points, thinned curves, last values, and the facts by which lists filter them.

Inside the caller's transaction, so that lists stay in step with what experiments record.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from core import orm
from core.prepared import insert
from experiments.engine import stretches
from experiments.engine.columns import MAX_KEY, Kind
from experiments.engine.recorded import Reading, Record
from experiments.engine.stretches import Levels
from experiments.models import Experiment, Fact, FactKey, MetricLast, MetricPoint, MetricStretch

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
    write_keys(
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


def write_given_facts(experiments: Sequence[Experiment]) -> None:
    """Note the parameters and datasets that new experiments of one project were given."""
    write_facts([(row, Kind.PARAM, row.parameters) for row in experiments])
    write_facts([(row, Kind.DATA, _commits(row)) for row in experiments])


def write_facts(recorded: Iterable[tuple[Experiment, Kind, Mapping[str, object]]]) -> None:
    """Note recorded values; a key that was noted before gets its new value."""
    rows: dict[tuple[str, Kind, str], Fact] = {}
    keys: set[tuple[str, Kind, str]] = set()
    for experiment, kind, values in recorded:
        for key, value in values.items():
            name, reading = key[:MAX_KEY], Reading.of(value)
            rows[experiment.pk, kind, name] = Fact(
                experiment=experiment, kind=kind, key=name, number=reading.number, text=reading.text
            )
            keys.add((experiment.project_id, kind, name))
    Fact.objects.bulk_create(
        rows.values(),
        batch_size=orm.BATCH_ROWS,
        update_conflicts=True,
        unique_fields=["experiment", "kind", "key"],
        update_fields=["number", "text"],
    )
    write_keys(keys)


def write_keys(keys: Iterable[tuple[str, Kind, str]]) -> None:
    """Note under which keys a project's experiments record something: (project's id, kind, key)."""
    names = {(project_id, str(kind), key[:MAX_KEY]) for project_id, kind, key in keys}
    for project_id in sorted({project_id for project_id, _, _ in names}):
        known = set(FactKey.objects.filter(project=project_id).values_list("project_id", "kind", "key"))
        # In one order everywhere, so that two writers never wait for each other.
        new = sorted(name for name in names - known if name[0] == project_id)
        FactKey.objects.bulk_create(
            [FactKey(project_id=project_id, kind=kind, key=key) for _, kind, key in new],
            batch_size=orm.BATCH_ROWS,
            ignore_conflicts=True,
        )


def forget_fact(experiment: Experiment, kind: Kind, key: str) -> None:
    """Drop a value that was taken back."""
    Fact.objects.filter(experiment=experiment, kind=kind, key=key[:MAX_KEY]).delete()


def _commits(experiment: Experiment) -> dict[str, object]:
    return {str(item["dataset"]): item["commit"] for item in experiment.datasets if item.get("dataset")}
