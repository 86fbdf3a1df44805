"""Recorded values of experiments. For the platform itself: no actor is asked for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from core.prepared import prepared
from experiments.engine.log_tags import Value
from experiments.models import Experiment, MetricLast


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
