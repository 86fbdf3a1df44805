"""Work that was enqueued or placed while nodes moved to another pool has the queue of the old one. It follows here."""

from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet

from core import isolation
from scheduler.engine.states import WorkloadState
from scheduler.models import Placement, PoolResource, Workload
from scheduler.selectors.resource_pools import ResourcePools
from scheduler.services import pool_members

STRAY = "scheduler.requeue_strays"
"""The kind of failures; items are resources."""


def find_strays() -> list[QuerySet[Any]]:
    """Return the workloads that wait in a pool which their resource is not in, and placements on nodes of other pools.

    These are of workloads whose queue is not in the pool of the node.
    """
    pools = PoolResource.objects.filter(resource_id=OuterRef("resource_id"))
    is_elsewhere = Exists(pools) & ~Exists(pools.filter(pool=OuterRef("queue__pool")))
    waiting = Workload.objects.filter(is_elsewhere, state=WorkloadState.PENDING)
    return [waiting, Placement.objects.exclude(node__pool=F("workload__queue__pool"))]


def requeue_strays() -> None:
    """Put work into the queues of the pools in which its nodes are."""
    waiting, placed = find_strays()
    resource_ids = {*waiting.values_list("resource_id", flat=True), *placed.values_list("node__resource_id", flat=True)}
    isolation.for_each(STRAY, sorted(resource_ids), _follow)


@transaction.atomic
def _follow(resource_id: str) -> None:
    waiting, placed = find_strays()
    pool_id = ResourcePools([resource_id]).find(resource_id).id
    pool_members.requeue(waiting.filter(resource_id=resource_id), pool_id=pool_id)
    rows = placed.filter(node__resource_id=resource_id).order_by("-pk")
    for workload_id, pool_id in dict(rows.values_list("workload_id", "node__pool_id")).items():
        pool_members.requeue(Workload.objects.filter(pk=workload_id), pool_id=pool_id)
