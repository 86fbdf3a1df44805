"""In which pools the nodes of resources are. For the platform itself: every signed-in person may see pools."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from django.db.models import Case, Exists, F, IntegerField, OuterRef, QuerySet, Value, When

from core.prepared import prepared
from scheduler.engine.wording import list_names
from scheduler.models import DEFAULT_POOL_ID, Node, PoolResource
from scheduler.selectors.pools import DEFAULT


class ResourcePool(NamedTuple):
    """One pool of a resource."""

    id: str
    name: str


class ResourcePools:
    """The pools of resources at one moment.

    Those of a resource come in the order in which work takes them that names none: first those with nodes of it; of
    these the pool of what no label claims, then those of its labels in the order of the alphabet.
    """

    def __init__(self, resource_ids: Collection[str] | None = None) -> None:
        """Read those of some resources; None: of all."""
        rows = _all() if resource_ids is None else _of(resource_ids)
        self._pools: dict[str, dict[ResourcePool, None]] = {}
        self._divided = {resource_id for resource_id, label, *_ in rows if label}
        for resource_id, _, pool_id, name in rows:
            self._pools.setdefault(resource_id, {})[ResourcePool(pool_id, name)] = None

    def list_pools(self, resource_id: str) -> Sequence[ResourcePool]:
        """Return the pools of a resource, the first of which work gets that names none."""
        return list(self._pools.get(resource_id, ())) or [ResourcePool(DEFAULT_POOL_ID, DEFAULT)]

    def is_divided(self, resource_id: str) -> bool:
        """Whether labels divide the nodes of a resource among pools."""
        return resource_id in self._divided

    def has(self, resource_id: str, pool: str) -> bool:
        """Whether nodes of a resource are, or would be, in the pool with a name."""
        return any(each.name == pool for each in self.list_pools(resource_id))

    def describe_missing(self, resource_id: str, resource: str, pool: str) -> str:
        """Say that a resource with a name has no nodes in a pool, and where it has some; empty: it has."""
        if self.has(resource_id, pool):
            return ""
        there = list_names([each.name for each in self.list_pools(resource_id)])
        return f"{resource} has no nodes in the pool {pool}, but in {there}."

    def find(self, resource_id: str, pool: str = "") -> ResourcePool:
        """Return the pool of a resource with this name, else the first."""
        pools = self.list_pools(resource_id)
        return next((each for each in pools if each.name == pool), pools[0])


def _rows(memberships: QuerySet[PoolResource]) -> QuerySet[PoolResource, tuple[str, str, str, str]]:
    nodes = Node.objects.filter(resource_id=OuterRef("resource_id"), pool=OuterRef("pool"))
    rank = Case(When(Exists(nodes), then=Value(0)), default=Value(1), output_field=IntegerField())
    ordered = memberships.order_by(rank, "label", "pk").annotate(pool_name=F("pool__name"))
    return ordered.values_list("resource_id", "label", "pool_id", "pool_name")


@prepared
def _all() -> QuerySet[PoolResource, tuple[str, str, str, str]]:
    return _rows(PoolResource.objects.all())


@prepared
def _of(resource_ids: Collection[str]) -> QuerySet[PoolResource, tuple[str, str, str, str]]:
    return _rows(PoolResource.objects.filter(resource_id__in=resource_ids))
