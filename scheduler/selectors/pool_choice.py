"""Which pools of a resource that labels divide could run work: those with a node that it fits on, were that empty."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from scheduler.engine.ledger import NodeLedger
from scheduler.engine.snapshot import NodeView, Request
from scheduler.models import Node
from scheduler.selectors.resource_pools import ResourcePools
from scheduler.selectors.snapshots import request_of_pods, view_nodes_by_pool


class PoolChoice:
    """The nodes of pools, whether or not they take work now."""

    def __init__(self, nodes: Iterable[tuple[str, NodeView]]) -> None:
        """Keep nodes, each with the id of its pool."""
        self._nodes: dict[str, list[NodeLedger]] = defaultdict(list)
        for pool_id, view in nodes:
            self._nodes[pool_id].append(NodeLedger(view, 0, []))
        self._known: dict[tuple[str, Request], bool] = {}

    def could_run(self, pool_id: str, requests: Collection[Request]) -> bool:
        """Return whether a pool has a node for each of these pods."""
        return all(self._fits(pool_id, request) for request in requests)

    def find(self, pool_ids: Iterable[str], requests: Collection[Request]) -> str | None:
        """Return the first pool that could run work; None: none could."""
        return next((pool_id for pool_id in pool_ids if self.could_run(pool_id, requests)), None)

    def _fits(self, pool_id: str, request: Request) -> bool:
        key = pool_id, request
        if key not in self._known:
            self._known[key] = any(node.fits(request, now=True) for node in self._nodes.get(pool_id, ()))
        return self._known[key]


def read_requests(pod_sets: Iterable[Mapping[str, Any]], resource_id: str) -> list[Request]:
    """Return what each pod of some sets (`PodSet.to_json`) asks for on a resource."""
    return [request_of_pods(pods, resource_id) for pods in pod_sets]


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
    return choice.find(ids, read_requests(pod_sets, resource_id)) or first
