"""How much the experiments of runs recorded, for what is told before these are deleted. No actor is asked for."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Sum
from django.db.models.query import QuerySet

from experiments.models import Experiment, MetricLast


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
