"""What experiments recorded, for the platform itself and the app that created them: no actor is asked for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, QuerySet, Sum

from core import orm
from core.prepared import prepared
from experiments.engine.recorded import Problems, Value
from experiments.models import Experiment, MetricLast

__all__ = ["LogRecord", "Problems"]


@dataclass(frozen=True)
class Measured:
    """What one experiment recorded: its tags and the last values of its metrics. `is_read`: its log was read whole."""

    source_id: str
    step_index: int
    is_read: bool
    values: Mapping[str, Value]


def of_step(*, run_id: str, step_key: str) -> Sequence[Measured]:
    """Return what every experiment of a step of a run recorded, by index, in two queries."""
    measured: dict[str, dict[str, Value]] = {}
    results: list[Measured] = []
    has_recorded = False
    for pk, source_id, index, harvested_at, tags, is_recorded in _experiments_of(run_id, step_key):
        measured[pk] = dict(tags)
        has_recorded = has_recorded or is_recorded
        results.append(Measured(source_id or "", index or 0, harvested_at is not None, measured[pk]))
    if has_recorded:
        rows = Experiment.objects.filter(run_id=run_id, step_key=step_key)
        lasts = MetricLast.objects.filter(experiment__in=rows).values_list("experiment_id", "key", "value")
        for experiment_id, name, value in lasts:
            if experiment_id in measured:
                measured[experiment_id][name] = math.nan if value is None else value
    return results


@prepared
def _experiments_of(run_id: str, step_key: str) -> QuerySet[Experiment, tuple[Any, ...]]:
    rows = Experiment.objects.filter(run_id=run_id, step_key=step_key).order_by("step_index", "pk")
    return rows.values_list("pk", "source_id", "step_index", "harvested_at", "tags", "is_recorded")


def shown(value: float | None) -> float | str:
    """Return a stored value as JSON can carry it: NaN and the infinities as texts."""
    if value is None:
        return "nan"
    return value if math.isfinite(value) else str(value)


def last_values(experiment_ids: list[str]) -> Mapping[str, dict[str, float | str]]:
    """Return the last value of every metric of several experiments."""
    values: dict[str, dict[str, float | str]] = {experiment_id: {} for experiment_id in experiment_ids}
    rows = MetricLast.objects.filter(experiment_id__in=experiment_ids).order_by("key")
    for experiment_id, key, value in rows.values_list("experiment_id", "key", "value"):
        values[experiment_id][key] = shown(value)
    return values


@dataclass(frozen=True)
class LogRecord:
    """An experiment, and the lines of its log that could not be read."""

    experiment_id: str
    problems: Problems


def records_of_run(run_id: str) -> Mapping[str, LogRecord]:
    """Return the experiments of a run by their source's id, in one query."""
    rows = Experiment.objects.filter(run_id=run_id).values_list("source_id", "pk", "log_problems")
    return {source_id or "": LogRecord(pk, Problems.of(problems)) for source_id, pk, problems in rows}


def find_read(kind: str, source_ids: list[str]) -> set[str]:
    """Return those of some sources of one kind whose log was read to its end."""
    read: set[str] = set()
    for batch in orm.in_batches(source_ids):
        rows = Experiment.objects.filter(source_kind=kind, source_id__in=batch)
        read.update(str(source_id) for (source_id,) in rows.filter(harvested_at__isnull=False).values_list("source_id"))
    return read


@dataclass(frozen=True)
class Summary:
    """How many experiments there are that recorded something, and what is lost with them."""

    experiments: int
    metrics: int
    points: int
    notes: int


def summarise_runs(*, run_ids: QuerySet[Any]) -> Summary:
    """Return how much the experiments of some runs recorded."""
    rows = Experiment.objects.filter(run_id__in=run_ids, deleted_at=None)
    recorded = rows.filter(is_recorded=True).count()
    sums = MetricLast.objects.filter(experiment__in=rows.order_by().values("pk")).aggregate(
        metrics=Count("pk"), points=Sum("points")
    )
    notes = rows.exclude(note="").count()
    return Summary(recorded, sums["metrics"], sums["points"] or 0, notes)
