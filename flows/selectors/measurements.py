"""What steps measured, as their children and conditions see it. For the platform itself: no actor is asked for."""

import math
from collections.abc import Mapping

from django.db.models import F, Q

from flows.engine.expressions import Value
from flows.models import Experiment, MetricLast


def of_step(run_id: str, key: str) -> dict[int, dict[str, Value]]:
    """Return, for each instance of a step that succeeded, its tags and the last values of its metrics."""
    # A job's success is the step's, as soon as its log is read; the step itself may be settled by the very next plan.
    has_succeeded = Q(attempt__state="succeeded") | Q(attempt__job__state="succeeded", harvested_at__isnull=False)
    of_run = Experiment.objects.filter(run_id=run_id, step__key=key, attempt__number=F("step__attempt_count"))
    chosen = of_run.filter(has_succeeded)
    found: dict[int, dict[str, Value]] = {}
    by_experiment: dict[str, dict[str, Value]] = {}
    for experiment_id, index, tags in chosen.order_by("step__index").values_list("pk", "step__index", "tags"):
        found[index] = by_experiment[experiment_id] = dict(tags)
    for experiment_id, name, value in MetricLast.objects.filter(experiment__in=chosen).values_list(
        "experiment_id", "key", "value"
    ):
        by_experiment[experiment_id][name] = math.nan if value is None else value
    return found


def shown(value: float | None) -> float | str:
    """Return a stored value as JSON can carry it: NaN and the infinities as texts."""
    if value is None:
        return "nan"
    return value if math.isfinite(value) else str(value)


def last_values(experiment_ids: list[str]) -> Mapping[str, dict[str, float | str]]:
    """Return the last value of every metric of several experiments."""
    found: dict[str, dict[str, float | str]] = {experiment_id: {} for experiment_id in experiment_ids}
    rows = MetricLast.objects.filter(experiment_id__in=experiment_ids).order_by("key")
    for experiment_id, key, value in rows.values_list("experiment_id", "key", "value"):
        found[experiment_id][key] = shown(value)
    return found
