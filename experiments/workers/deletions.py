"""Removing what deleted experiments recorded, some rows at a time, so that nobody waits for it."""

from collections.abc import Collection

from django.db.models import QuerySet

from accounts.project_contents import first_ids, remove_first
from core import tasks
from experiments.models import Artifact, Experiment, Fact, MetricLast, MetricPoint, MetricStretch

_PARTS = (MetricPoint, MetricStretch, MetricLast, Artifact, Fact)
_BATCHES_AT_ONCE = 200


def find_deleted() -> list[QuerySet[Experiment]]:
    """Return the deleted experiments."""
    return [Experiment.objects.filter(deleted_at__isnull=False)]


def remove_deleted() -> None:
    """Remove deleted experiments, some batches of rows; the rest follows."""
    (deleted,) = find_deleted()
    for _ in range(_BATCHES_AT_ONCE):
        if not remove_batch(first_ids(deleted)):
            return
    tasks.enqueue("experiments.remove_deleted")


def remove_batch(experiment_ids: Collection[str]) -> bool:
    """Remove some rows of these experiments, at last their own; return whether there were any."""
    return remove_first(
        *(part._default_manager.filter(experiment__in=experiment_ids) for part in _PARTS),
        Experiment.objects.filter(pk__in=experiment_ids),
    )
