"""Removing what deleted experiments recorded, some rows at a time, so that nobody waits for it."""

from collections.abc import Collection, Sequence
from itertools import takewhile

from django.db.models import QuerySet

from accounts.project_contents import remove_first
from core import isolation, tasks
from experiments.models import Artifact, Experiment, Fact, MetricLast, MetricPoint, MetricStretch
from experiments.selectors import failures

_PARTS = (MetricPoint, MetricStretch, MetricLast, Artifact, Fact)
_EXPERIMENTS_AT_ONCE, _BATCHES_AT_ONCE = 100, 200


def find_deleted() -> list[QuerySet[Experiment]]:
    """Return the deleted experiments."""
    return [Experiment.objects.filter(deleted_at__isnull=False)]


def remove_deleted() -> None:
    """Remove deleted experiments, some batches of rows; the rest follows."""
    (deleted,) = find_deleted()
    rows = isolation.take(failures.REMOVE, deleted.order_by("pk"), _EXPERIMENTS_AT_ONCE)
    if any(isolation.in_batch(failures.REMOVE, rows, _remove)):
        tasks.enqueue("experiments.remove_deleted")


def _remove(experiments: Sequence[Experiment]) -> bool:
    """Remove some batches of rows; return whether there were any. May be repeated at any time."""
    ids = [row.pk for row in experiments]
    batches = takewhile(bool, (remove_batch(ids) for _ in range(_BATCHES_AT_ONCE)))
    return sum(batches) > 0


def remove_batch(experiment_ids: Collection[str]) -> bool:
    """Remove some rows of these experiments, at last their own; return whether there were any."""
    return remove_first(
        *(part._default_manager.filter(experiment__in=experiment_ids) for part in _PARTS),
        Experiment.objects.filter(pk__in=experiment_ids),
    )
