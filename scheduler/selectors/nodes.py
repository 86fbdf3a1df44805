"""Reads about nodes: what is there, and how much of it is held. Every signed-in person may see them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import QuerySet

from accounts.actor import Actor
from scheduler.errors import NodeNotFound
from scheduler.models import Node


@dataclass(frozen=True)
class Held:
    """What the workloads on a node hold; `gpu_milli` maps a device's index to the thousandths of it that are held."""

    cpu_millicores: int
    memory_bytes: int
    gpu_milli: Mapping[int, int]


def list_nodes(*, actor: Actor, resource: str | None = None) -> QuerySet[Node]:  # noqa: ARG001 (every actor sees them)
    """Return nodes with their devices and placements at hand, newest first; those of one resource where asked for."""
    nodes = Node.objects.order_by("-pk").prefetch_related("gpus", "placements__workload")
    return nodes if resource is None else nodes.filter(resource_name=resource)


def find_simulated_pools() -> frozenset[str]:
    """Return the names of the pools in which some nodes are simulated."""
    pools = Node.objects.filter(is_simulated=True, pool__isnull=False).order_by()
    return frozenset(pools.values_list("pool__name", flat=True).distinct())


def get_node(*, actor: Actor, node_id: str) -> Node:
    """Return a node. Raises NodeNotFound."""
    node = list_nodes(actor=actor).filter(pk=node_id).first()
    if node is None:
        raise NodeNotFound(f"There is no node '{node_id}'.")
    return node


def held_on(node: Node) -> Held:
    """Return what is held on a node that `list_nodes` returned."""
    placements = list(node.placements.all())
    gpus: Counter[int] = Counter()
    for placement in placements:
        for index, milli in placement.gpus:
            gpus[index] += milli
    return Held(
        cpu_millicores=sum(placement.cpu_millicores for placement in placements),
        memory_bytes=sum(placement.memory_bytes for placement in placements),
        gpu_milli=gpus,
    )
