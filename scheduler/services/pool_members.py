"""Who belongs to a pool: nodes of resources, and projects by their queues there.

The pool of a node is that of its label, or of its resource; that of work is the pool of its nodes. So the work that
holds a node goes with it into another pool. The default pool is made at the first need.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import F, QuerySet

from core import orm, tasks
from core.prepared import prepared
from scheduler.engine.node_labels import label_of
from scheduler.engine.states import WorkloadState
from scheduler.models import DEFAULT_POOL_ID, Gpu, Node, Placement, Pool, PoolResource, Queue, Reservation, Workload
from scheduler.selectors.queues import list_project_ids
from scheduler.selectors.resource_pools import PoolChoice, read_pod_kinds
from scheduler.selectors.snapshots import view_nodes_by_pool

Claims = Mapping[str, str]
"""The pools of a resource by the labels of its nodes; the empty one stands for what no label claims."""


@dataclass(frozen=True)
class Changes:
    """The nodes of a resource that change pools, each with its new one.

    `left_pool_ids` are the pools that the resource leaves, `shrunk_pool_ids` those that lose some of its nodes.
    """

    pool_ids: Mapping[str, str]
    left_pool_ids: Collection[str]
    shrunk_pool_ids: Collection[str]


@dataclass(frozen=True)
class Members:
    """The claims of a resource, and its nodes: their ids, pools and labels."""

    resource_id: str
    claims: Claims
    nodes: Sequence[tuple[str, str, Mapping[str, str]]]


def read_members(resource_ids: Collection[str]) -> list[Members]:
    """Return what is in pools of resources, in the order of their ids."""
    claims: dict[str, dict[str, str]] = {resource_id: {"": DEFAULT_POOL_ID} for resource_id in resource_ids}
    nodes: dict[str, list[tuple[str, str, Mapping[str, str]]]] = {resource_id: [] for resource_id in resource_ids}
    rows = PoolResource.objects.filter(resource_id__in=resource_ids).values_list("resource_id", "label", "pool_id")
    for resource_id, label, pool_id in rows:
        claims[resource_id][label] = pool_id
    known = Node.objects.filter(resource_id__in=resource_ids).order_by("pk")
    for resource_id, *node in known.values_list("resource_id", "pk", "pool_id", "labels"):
        nodes[resource_id].append(tuple(node))
    return [Members(resource_id, claims[resource_id], nodes[resource_id]) for resource_id in sorted(claims)]


def find_changes(members: Members, after: Claims) -> Changes:
    """Return which nodes of a resource change pools where other labels claim them, or these are in other pools.

    The nodes of a gang stay together: while it runs on nodes that would be in several pools, they stay where they are.
    """
    nodes, before = members.nodes, members.claims
    present = {pk: pool_id for pk, pool_id, _ in nodes}
    pool_ids = {pk: after[label_of(labels, after)] for pk, _, labels in nodes}
    if pool_ids != present:
        gangs, stays = _nodes_of_gangs(members.resource_id), set[str]()
        while held := {pk for gang in gangs if len({pool_ids[pk] for pk in gang}) > 1 for pk in gang} - stays:
            pool_ids |= {pk: present[pk] for pk in held}
            stays |= held
    left = (set(before.values()) - set(after.values())) | (set(present.values()) - set(pool_ids.values()))
    moved = {pk: pool_id for pk, pool_id in pool_ids.items() if pool_id != present[pk]}
    return Changes(moved, left, {present[pk] for pk in moved} - left)


@dataclass(frozen=True)
class Waiting:
    """A workload that waits in a pool which changes, and in which pool it goes on."""

    id: str
    is_preemptible: bool
    pool_id: str
    next_pool_id: str


def find_waiting(resource_id: str, changes: Changes, after: Claims, *, pool_id: str) -> list[Waiting]:
    """Return what waits in the pools that change, and where it goes on.

    It stays where the nodes that are left could run it. Else it goes to the pool with this id, or to the first that
    could run it.
    """
    pool_ids = {*changes.left_pool_ids, *changes.shrunk_pool_ids}
    if not pool_ids:
        return []
    pending = Workload.objects.filter(resource_id=resource_id, state=WorkloadState.PENDING)
    affected = pending.filter(queue__pool__in=pool_ids).order_by("pk")
    rows = list(affected.values_list("pk", "is_preemptible", "queue__pool_id", "pod_sets"))
    if not rows:
        return []
    nodes = Node.objects.filter(resource_id=resource_id)
    choice = PoolChoice((changes.pool_ids.get(view.id, own), view) for own, view in view_nodes_by_pool(nodes))
    order = [pool_id, *(after[label] for label in sorted(after))]
    waiting = []
    for pk, is_preemptible, present, pod_sets in rows:
        stays = [] if present in changes.left_pool_ids else [present]
        own = choice.find([*stays, *order], read_pod_kinds(pod_sets, resource_id))
        waiting.append(Waiting(pk, is_preemptible, present, own or (stays or order)[0]))
    return waiting


def _nodes_of_gangs(resource_id: str) -> list[set[str]]:
    held = Placement.objects.filter(node__resource_id=resource_id, workload__has_many_pods=True)
    gangs: dict[str, set[str]] = defaultdict(set)
    for workload_id, node_id in held.order_by("pk").values_list("workload_id", "node_id"):
        gangs[workload_id].add(node_id)
    return list(gangs.values())


def choose_pool(*, resource_id: str, name: str) -> str:
    """Return the pool of a resource that reports GPUs; one that is new gets a pool here.

    That is the default pool while no other resource has GPUs in it. Else it is one of its own, called like it: GPUs of
    one place say nothing about what is fair in another.
    """
    ensure_default_pool()
    # Of two resources that report at once the second must see the GPUs of the first.
    default = Pool.objects.select_for_update().get(pk=DEFAULT_POOL_ID)
    known = PoolResource.objects.filter(resource_id=resource_id, label="").first()
    if known is not None:
        return known.pool_id
    others = Gpu.objects.filter(node__pool=default).exclude(node__resource_id=resource_id)
    pool = _named_for(name) if others.exists() else default
    move(pool, [resource_id])
    return pool.pk


def _named_for(name: str) -> Pool:
    """Return the pool called like a resource, unless others have nodes there; else a new one."""
    same = Pool.objects.filter(name=name).exclude(pk=DEFAULT_POOL_ID).first()
    if same is not None and not same.nodes.exists():
        return same
    taken = set(Pool.objects.values_list("name", flat=True))
    number = 2
    unique = name
    while unique in taken:
        unique, number = f"{name[:57]}-{number}", number + 1
    return create(unique)


def create(name: str) -> Pool:
    """Create a pool, with a queue for each project."""
    pool = Pool.objects.create(name=name)
    ensure_queues(list_project_ids(), pool_id=pool.pk)
    return pool


def move(pool: Pool, resource_ids: Collection[str], *, label: str = "") -> None:
    """Move resources with their work: the nodes that have a label, or without one those that no label claims.

    Who reads the database sees all of it in one pool.
    """
    ensure_default_pool()
    for resource_id in sorted(resource_ids):
        before = _lock_members(resource_id)
        _claim(resource_id, "", before.claims[""])
        _claim(resource_id, label, pool.pk)
        _settle(before, {**before.claims, label: pool.pk}, pool_id=pool.pk)
    tasks.enqueue_on_commit("scheduler.cycle")


def take_out(resource_ids: Collection[str], *, label: str) -> None:
    """Let a label of resources claim nothing more: its nodes are where the rest of their resource is."""
    for resource_id in sorted(resource_ids):
        before = _lock_members(resource_id)
        PoolResource.objects.filter(resource_id=resource_id, label=label).delete()
        after = {other: pool_id for other, pool_id in before.claims.items() if other != label}
        _settle(before, after, pool_id=after[""])
    tasks.enqueue_on_commit("scheduler.cycle")


def regroup(resource_id: str) -> None:
    """Put the nodes of a resource into the pools of the labels that they have now, with the work that holds them."""
    (members,) = read_members([resource_id])
    if any(members.claims):
        _apply(resource_id, find_changes(members, members.claims))


def _lock_members(resource_id: str) -> Members:
    # A report locks the nodes too, before it reads which labels claim them.
    list(Node.objects.select_for_update().filter(resource_id=resource_id).order_by("pk").values_list("pk"))
    (members,) = read_members([resource_id])
    return members


def _claim(resource_id: str, label: str, pool_id: str) -> None:
    PoolResource.objects.update_or_create(resource_id=resource_id, label=label, defaults={"pool_id": pool_id})


def _settle(before: Members, after: Claims, *, pool_id: str) -> None:
    """Put nodes and work into their pools after claims have changed; what cannot wait on goes to a pool."""
    changes = find_changes(before, after)
    waiting = find_waiting(before.resource_id, changes, after, pool_id=pool_id)
    _apply(before.resource_id, changes)
    ids = defaultdict(list)
    for each in waiting:
        ids[each.next_pool_id].append(each.id)
    for own in sorted(ids):
        for batch in orm.in_batches(ids[own]):
            requeue(Workload.objects.filter(pk__in=batch), pool_id=own)


def _apply(resource_id: str, changes: Changes) -> None:
    for pool_id in sorted(set(changes.pool_ids.values())):
        node_ids = [pk for pk, other in changes.pool_ids.items() if other == pool_id]
        Node.objects.filter(pk__in=node_ids).update(pool=pool_id, revision=F("revision") + 1)
        requeue_held(resource_id, pool_id=pool_id)
    if changes.pool_ids:
        reserved = Reservation.objects.filter(node__resource_id=resource_id)
        reserved.exclude(node__pool=F("workload__queue__pool")).delete()


def requeue_held(resource_id: str, *, pool_id: str) -> None:
    """Put the work that holds nodes of a resource in a pool into the queues there."""
    held = Placement.objects.filter(node__resource_id=resource_id, node__pool=pool_id)
    requeue(Workload.objects.filter(pk__in=held.values("workload")), pool_id=pool_id)


def requeue(workloads: QuerySet[Workload], *, pool_id: str) -> None:
    """Put work into the queues of a pool, where it is in another one."""
    elsewhere = workloads.exclude(queue__pool=pool_id)
    counts = Counter(elsewhere.values_list("project_id", flat=True))
    queue_ids = ensure_queues(sorted(counts), pool_id=pool_id) if counts else {}
    for project_id in sorted(counts):
        elsewhere.filter(project_id=project_id).update(queue_id=queue_ids[project_id], revision=F("revision") + 1)


def ensure_queues(project_ids: Collection[str], *, pool_id: str = DEFAULT_POOL_ID) -> Mapping[str, str]:
    """Return the id of each project's queue in a pool, creating those that are missing with no GPUs of their own."""
    queue_ids = dict(_queues_of(pool_id, project_ids))
    missing = sorted(set(project_ids) - set(queue_ids))
    if missing:
        if pool_id == DEFAULT_POOL_ID:
            ensure_default_pool()
        Queue.objects.bulk_create(
            [Queue(pool_id=pool_id, project_id=project_id) for project_id in missing], ignore_conflicts=True
        )
        queue_ids |= dict(_queues_of(pool_id, missing))
    return queue_ids


@prepared
def _queues_of(pool_id: str, project_ids: Collection[str]) -> QuerySet[Queue, tuple[str, str]]:
    return Queue.objects.filter(pool=pool_id, project__in=project_ids).values_list("project_id", "id")


def ensure_queue(*, project_id: str) -> str:
    """Return the id of a project's queue in the default pool; it has one in every pool from then on."""
    for pool_id in Pool.objects.exclude(pk=DEFAULT_POOL_ID).order_by("pk").values_list("pk", flat=True):
        ensure_queues([project_id], pool_id=pool_id)
    return ensure_queues([project_id])[project_id]


def ensure_default_pool() -> None:
    """Create the default pool if it is missing."""
    Pool.objects.bulk_create([Pool(pk=DEFAULT_POOL_ID, name="default")], ignore_conflicts=True)
