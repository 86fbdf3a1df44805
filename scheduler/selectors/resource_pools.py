"""In which pools the nodes of resources are, and which of these could run work: those large enough, were they empty.

For the platform itself: every signed-in person may see pools.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from django.db.models import Case, Exists, F, IntegerField, OuterRef, QuerySet, Value, When

from core.prepared import prepared
from scheduler.engine.ledger import NodeLedger
from scheduler.engine.placing import count_fitting
from scheduler.engine.snapshot import NodeView, Request
from scheduler.engine.wording import list_names
from scheduler.models import DEFAULT_POOL_ID, Node, PoolResource
from scheduler.selectors.pools import DEFAULT
from scheduler.selectors.snapshots import request_of_pods, view_nodes_by_pool


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


class PoolChoice:
    """The nodes of pools, whether or not they take work now."""

    def __init__(self, nodes: Iterable[tuple[str, NodeView]]) -> None:
        """Keep nodes, each with the id of its pool."""
        self._nodes: dict[str, list[NodeLedger]] = defaultdict(list)
        for pool_id, view in nodes:
            self._nodes[pool_id].append(NodeLedger(view, 0, []))
        self._known: dict[tuple[str, Request, int], bool] = {}

    def find(self, pool_ids: Iterable[str], pod_kinds: Collection[tuple[Request, int]]) -> str | None:
        """Return the first pool that could run work at once, else the first with a node for each kind of its pods.

        None: none has. Of each kind it is said what a pod asks for, and how many there are at least.
        """
        ids = list(pool_ids)
        single = [(request, 1) for request, _ in pod_kinds]
        both = ((pool_id, kinds) for kinds in (pod_kinds, single) for pool_id in ids)
        return next((pool_id for pool_id, kinds in both if all(self._holds(pool_id, *kind) for kind in kinds)), None)

    def _holds(self, pool_id: str, request: Request, count: int) -> bool:
        key = pool_id, request, count
        if key not in self._known:
            nodes = (node for node in self._nodes.get(pool_id, ()) if node.fits(request, now=True))
            if count == 1:
                self._known[key] = any(nodes)
            else:
                self._known[key] = sum(count_fitting(node, request) for node in nodes) >= count
        return self._known[key]


def read_pod_kinds(pod_sets: Iterable[Mapping[str, Any]], resource_id: str) -> list[tuple[Request, int]]:
    """Return what each pod of some sets (`PodSet.to_json`) asks for on a resource, and how many the work needs."""
    return [(request_of_pods(pods, resource_id), pods["min_count"]) for pods in pod_sets]


def choose_pools(asks: Sequence[tuple[str, str, Sequence[Mapping[str, Any]]]]) -> list[str]:
    """Return the id of the pool of each work: of its resource, the name of a pool, and its sets of pods.

    It is the pool with that name where the resource has it; else the first of the resource that could run the work.
    """
    pools = ResourcePools({resource_id for resource_id, *_ in asks})
    unnamed = {resource_id for resource_id, name, _ in asks if not pools.has(resource_id, name)}
    open_ids = set(filter(pools.is_divided, unnamed))
    choice = PoolChoice(view_nodes_by_pool(Node.objects.filter(resource_id__in=open_ids)) if open_ids else ())
    return [choose_pool(pools, choice, *ask) for ask in asks]


def choose_pool(
    pools: ResourcePools, choice: PoolChoice, resource_id: str, name: str, pod_sets: Sequence[Mapping[str, Any]]
) -> str:
    """Return the id of the pool of one work, as `choose_pools` does."""
    first = pools.find(resource_id, name).id
    if not pools.is_divided(resource_id) or pools.has(resource_id, name):
        return first
    ids = [pool.id for pool in pools.list_pools(resource_id)]
    return choice.find(ids, read_pod_kinds(pod_sets, resource_id)) or first
