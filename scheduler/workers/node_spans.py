"""Notes what holds the GPUs of each node over time: one row for each change that a check once a minute sees."""

from collections import defaultdict
from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, FilteredRelation, OuterRef, Q

from core import clock
from core.orm import in_batches
from scheduler.models import Gpu, Node, NodeSpan, Placement

KEPT = timedelta(days=14)

_Shares = list[list[int | str]]


@transaction.atomic
def sample() -> None:
    """End the spans of nodes that are held otherwise now, and begin their new ones."""
    now, held = clock.now(), _shares_by_node()
    gpus = Gpu.objects.filter(node=OuterRef("pk"))
    nodes = Node.objects.annotate(
        has_gpus=Exists(gpus), open_span=FilteredRelation("spans", condition=Q(spans__ends_at=None))
    )
    current: dict[str, _Shares] = {}
    known: dict[str, _Shares] = {}
    rows = nodes.filter(Q(has_gpus=True) | Q(open_span__isnull=False)).order_by()
    for node, has_gpus, span, shares in rows.values_list("pk", "has_gpus", "open_span", "open_span__shares"):
        if has_gpus:
            current[node] = held.get(node, [])
        if span is not None:
            known[node] = shares
    changed = sorted(node for node, shares in current.items() if known.get(node) != shares)
    for ids in in_batches(sorted(known.keys() - current.keys()) + changed):
        NodeSpan.objects.filter(ends_at=None, node__in=ids).update(ends_at=now)
    NodeSpan.objects.bulk_create(
        (NodeSpan(node_id=node, begins_at=now, shares=current[node]) for node in changed), ignore_conflicts=True
    )


def collect() -> None:
    """Delete what is kept no longer."""
    NodeSpan.objects.filter(ends_at__lt=clock.now() - KEPT).delete()


def _shares_by_node() -> dict[str, _Shares]:
    """Return the shares of each node of which something holds GPUs."""
    totals: dict[str, dict[tuple[int, str], int]] = defaultdict(lambda: defaultdict(int))
    placements = Placement.objects.exclude(gpus=[]).order_by("pk")
    for node_id, project_id, gpus in placements.values_list("node", "workload__project", "gpus"):
        for index, milli in gpus:
            totals[node_id][index, project_id] += milli
    return {
        node_id: [[index, project, milli] for (index, project), milli in sorted(shares.items())]
        for node_id, shares in totals.items()
    }
