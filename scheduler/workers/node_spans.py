"""Notes what holds the GPUs of each node over time: one row for each change that a check once a minute sees."""

from collections import defaultdict
from datetime import timedelta

from django.db import transaction

from core import clock
from core.orm import in_batches
from scheduler.models import Gpu, NodeSpan, Placement

KEPT = timedelta(days=14)

_Shares = list[list[int | str]]


@transaction.atomic
def sample() -> None:
    """End the spans of nodes that are held otherwise now, and begin their new ones."""
    now, current = clock.now(), _shares_by_node()
    open_spans = NodeSpan.objects.filter(ends_at=None)
    known = dict(open_spans.values_list("node", "shares"))
    changed = sorted(node for node, shares in current.items() if known.get(node) != shares)
    for nodes in in_batches(sorted(known.keys() - current.keys()) + changed):
        open_spans.filter(node__in=nodes).update(ends_at=now)
    NodeSpan.objects.bulk_create(
        (NodeSpan(node_id=node, begins_at=now, shares=current[node]) for node in changed), ignore_conflicts=True
    )


def collect() -> None:
    """Delete what is kept no longer."""
    NodeSpan.objects.filter(ends_at__lt=clock.now() - KEPT).delete()


def _shares_by_node() -> dict[str, _Shares]:
    """Return the shares of each node that has GPUs, none where nothing holds them."""
    totals: dict[str, dict[tuple[int, str], int]] = defaultdict(lambda: defaultdict(int))
    placements = Placement.objects.exclude(gpus=[]).order_by("pk")
    for node_id, project_id, gpus in placements.values_list("node", "workload__project", "gpus"):
        for index, milli in gpus:
            totals[node_id][index, project_id] += milli
    with_gpus = Gpu.objects.order_by().values_list("node", flat=True).distinct()
    return {
        node_id: [[index, project, milli] for (index, project), milli in sorted(totals[node_id].items())]
        for node_id in with_gpus
    }
