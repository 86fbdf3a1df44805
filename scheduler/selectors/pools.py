"""Reads about pools and the resources in them. Every signed-in person may see them, as they may the nodes."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet

from accounts.permissions import Actor
from core.units import ONE_GPU
from scheduler.engine.node_labels import label_of
from scheduler.errors import InvalidPool, PoolNotFound
from scheduler.models import DEFAULT_POOL_ID, Node, Pool, PoolResource, Queue

DEFAULT = "default"
"""The name of the default pool."""


@dataclass(frozen=True)
class PoolLabel:
    """A label by which nodes of a resource are in a pool, and how many of them there are now."""

    resource: str
    label: str
    nodes: int


@dataclass(frozen=True)
class PoolView:
    """A pool with the names of its resources, and what its nodes that are ready have. GPUs in thousandths.

    Of resources that labels divide among pools it has the nodes by `labels`, or what is left; `whole` are those of
    which it has that, or all. `has_simulated`: some of its nodes are simulated.
    """

    pool: Pool
    resources: tuple[str, ...]
    whole: tuple[str, ...]
    labels: tuple[PoolLabel, ...]
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
    nodes = Node.objects.filter(pool__in=pools).order_by("resource_name")
    nodes_of = nodes.values("pool_id", "resource_id", "resource_name", "is_simulated")
    rows = list(
        nodes_of.annotate(
            nodes=Count("pk", distinct=True, filter=is_ready), devices=Count("gpus", distinct=True, filter=is_ready)
        )
    )
    claims = list(PoolResource.objects.order_by("resource_id", "label").values_list("resource_id", "label", "pool_id"))
    labels = _labels_in(pools, [claim for claim in claims if claim[1]])
    rest = {resource_id: pool_id for resource_id, label, pool_id in claims if not label}
    return [
        PoolView(
            pool,
            tuple(row["resource_name"] for row in rows if row["pool_id"] == pool.pk),
            tuple(
                row["resource_name"]
                for row in rows
                if row["pool_id"] == pool.pk == rest.get(row["resource_id"], DEFAULT_POOL_ID)
            ),
            tuple(labels.get(pool.pk, ())),
            sum(row["nodes"] for row in rows if row["pool_id"] == pool.pk),
            ONE_GPU * sum(row["devices"] for row in rows if row["pool_id"] == pool.pk),
            any(row["is_simulated"] for row in rows if row["pool_id"] == pool.pk),
        )
        for pool in pools
    ]


def _labels_in(pools: Collection[Pool], rows: Sequence[tuple[str, str, str]]) -> Mapping[str, list[PoolLabel]]:
    """Return by pool the labels by which nodes are in it: `rows` have resource, label and pool."""
    labels: dict[str, list[PoolLabel]] = {}
    if not rows:
        return labels
    names: dict[str, str] = {}
    counts: Counter[tuple[str, str]] = Counter()
    dividing: dict[str, set[str]] = {}
    for resource_id, label, _ in rows:
        dividing.setdefault(resource_id, set()).add(label)
    nodes = Node.objects.filter(resource_id__in=dividing).order_by("pk")
    for resource_id, name, own_labels in nodes.values_list("resource_id", "resource_name", "labels"):
        names[resource_id] = name
        counts[resource_id, label_of(own_labels, dividing[resource_id])] += 1
    ids = {pool.pk for pool in pools}
    for resource_id, label, pool_id in rows:
        # A resource that was detached has no nodes, and no name here.
        if pool_id in ids and resource_id in names:
            view = PoolLabel(names[resource_id], label, counts[resource_id, label])
            labels.setdefault(pool_id, []).append(view)
    return labels


def resource_ids_by_pool() -> Mapping[str, Collection[str]]:
    """Return the ids of the resources that have reported nodes, by the name of their pool. For the platform itself."""
    ids: dict[str, set[str]] = {}
    for pool, resource_id in Node.objects.order_by().values_list("pool__name", "resource_id").distinct():
        ids.setdefault(pool, set()).add(resource_id)
    return ids


def resource_ids_by_name() -> Mapping[str, str]:
    """Return the ids of the resources that have reported nodes, by their names. For the platform itself."""
    return dict(Node.objects.order_by("pk").values_list("resource_name", "resource_id").distinct())


def find_resource_ids(*, actor: Actor, names: Collection[str]) -> list[str]:  # noqa: ARG001 (every actor sees nodes)
    """Return the ids of resources by the names under which they reported nodes. Raises InvalidPool."""
    ids = dict(Node.objects.filter(resource_name__in=names).order_by("pk").values_list("resource_name", "resource_id"))
    if unknown := sorted(set(names) - ids.keys()):
        raise InvalidPool(f"No compute resource called '{unknown[0]}' has reported nodes.")
    return sorted(ids.values())
