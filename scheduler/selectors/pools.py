"""Reads about pools and the resources in them. Every signed-in person may see them, as they may the nodes."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet

from accounts.actor import Actor
from core.units import ONE_GPU
from scheduler.errors import InvalidPool, PoolNotFound
from scheduler.models import Node, Pool, Queue

DEFAULT = "default"
"""The name of the default pool."""


@dataclass(frozen=True)
class PoolView:
    """A pool with the names of its resources, and what its nodes that are ready have. GPUs in thousandths.

    `has_simulated`: some of its nodes are simulated.
    """

    pool: Pool
    resources: tuple[str, ...]
    nodes: int
    gpu_milli: int
    has_simulated: bool


def list_pools(*, actor: Actor) -> QuerySet[Pool]:  # noqa: ARG001 (every actor sees them)
    """Return the pools, the default one first."""
    return Pool.objects.order_by("created_at", "pk")


def get_pool(*, actor: Actor, name: str) -> Pool:
    """Return a pool by its name. Raises PoolNotFound."""
    pool = list_pools(actor=actor).filter(name=name).first()
    if pool is None:
        raise PoolNotFound(f"There is no pool called '{name}'.")
    return pool


def require_pool(*, actor: Actor, name: str) -> None:
    """Raise PoolNotFound unless there is such a pool. The default one is there as soon as anything is in it."""
    if name != DEFAULT:
        get_pool(actor=actor, name=name)


def list_preferred(project_id: str) -> list[str]:
    """Return the names of the pools that jobs of a project take which name none, the best first."""
    ranked = Queue.objects.filter(project=project_id, pool_rank__isnull=False).order_by("pool_rank", "pool__created_at")
    return list(ranked.values_list("pool__name", flat=True)) or [DEFAULT]


def view_pools(pools: Collection[Pool]) -> list[PoolView]:
    """Return what is in pools."""
    is_ready = Q(is_ready=True)
    nodes = (
        Node.objects.filter(pool__in=pools).order_by("resource_name").values("pool_id", "resource_name", "is_simulated")
    )
    rows = list(
        nodes.annotate(
            nodes=Count("pk", distinct=True, filter=is_ready), devices=Count("gpus", distinct=True, filter=is_ready)
        )
    )
    return [
        PoolView(
            pool,
            tuple(row["resource_name"] for row in rows if row["pool_id"] == pool.pk),
            sum(row["nodes"] for row in rows if row["pool_id"] == pool.pk),
            ONE_GPU * sum(row["devices"] for row in rows if row["pool_id"] == pool.pk),
            any(row["is_simulated"] for row in rows if row["pool_id"] == pool.pk),
        )
        for pool in pools
    ]


def resource_ids_by_pool() -> Mapping[str, Collection[str]]:
    """Return the ids of the resources that have reported nodes, by the name of their pool. For the platform itself."""
    ids: dict[str, set[str]] = {}
    for pool, resource_id in Node.objects.order_by().values_list("pool__name", "resource_id").distinct():
        ids.setdefault(pool, set()).add(resource_id)
    return ids


def find_resource_ids(*, actor: Actor, names: Collection[str]) -> list[str]:  # noqa: ARG001 (every actor sees nodes)
    """Return the ids of resources by the names under which they reported nodes. Raises InvalidPool."""
    ids = dict(Node.objects.filter(resource_name__in=names).order_by("pk").values_list("resource_name", "resource_id"))
    if unknown := sorted(set(names) - ids.keys()):
        raise InvalidPool(f"No compute resource called '{unknown[0]}' has reported nodes.")
    return sorted(ids.values())
