"""Work that was enqueued while its resource moved to another pool has the queue of the old one. It follows here."""

from typing import Any

from django.db import transaction
from django.db.models import F, OuterRef, QuerySet, Subquery

from core import isolation
from scheduler.engine.states import LIVE
from scheduler.models import PoolResource, Workload
from scheduler.services import pool_members

STRAY = "scheduler.requeue_strays"
"""The kind of failures; items are resources."""


def find_strays() -> list[QuerySet[Any]]:
    """Return the workloads that have the queue of another pool than their resource is in, which is `pool_id`."""
    memberships = PoolResource.objects.filter(resource_id=OuterRef("resource_id"))
    live = Workload.objects.filter(state__in=sorted(LIVE))
    present = live.annotate(pool_id=Subquery(memberships.values("pool")[:1]), queue_pool_id=F("queue__pool"))
    strays = present.exclude(pool_id=F("queue_pool_id")).exclude(pool_id=None)
    return [strays]


def requeue_strays() -> None:
    """Put work into the queues of the pool in which its resource is."""
    (strays,) = find_strays()
    pool_ids = dict(strays.order_by("pk").values_list("resource_id", "pool_id"))
    isolation.for_each(STRAY, sorted(pool_ids), lambda resource_id: _follow(resource_id, pool_ids[resource_id]))


@transaction.atomic
def _follow(resource_id: str, pool_id: str) -> None:
    pool_members.requeue_on([resource_id], pool_id=pool_id)
