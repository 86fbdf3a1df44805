"""Where jobs go, to a resource or to a pool among which labels divide it, and which of these places take jobs now.

A template stands for such a place: one of a divided resource names the pool. A place takes jobs while a node has what
they ask for; quotas and queues are not looked at.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy

from accounts.permissions import Actor
from compute.engine.holders import Amounts, Holding, fits
from compute.engine.states import HOLDING, JobState
from compute.models import Job, Resource, Template
from compute.selectors import resources
from compute.selectors.jobs import get_spec
from scheduler.selectors import nodes as node_selectors
from scheduler.selectors import pools, workloads
from scheduler.selectors.resource_pools import ResourcePools

Place = tuple[str, str]
"""The ids of a resource and of a pool of it."""

_SYSTEM = Actor.system("capacity")


def place_of(template: Template, pools: ResourcePools, nodes: Mapping[Place, Sequence[tuple[str, Amounts]]]) -> Place:
    """Return where jobs of a template go: without a pool to the first that has one of these nodes for them."""
    resource_id = template.resource_id
    if pools.is_divided(resource_id) and not pools.has(resource_id, template.pool):
        amounts = Amounts(template.cpu_millicores, template.memory_bytes, template.gpu_milli)
        for pool in pools.list_pools(resource_id):
            if any(fits(amounts, node, []) for _, node in nodes.get((resource_id, pool.id), ())):
                return resource_id, pool.id
    return resource_id, pools.find(resource_id, template.pool).id


def in_pool(template: Template, pool: str) -> Template:
    """Return a template whose jobs go to the pool with this name; it is not to be saved."""
    there = copy(template)
    there.pool = pool
    return there


def in_each_pool(templates: Iterable[Template], pools: ResourcePools) -> Iterator[Template]:
    """Yield templates, those of divided resources that name no pool once for each of these."""
    for template in templates:
        if template.pool or not pools.is_divided(template.resource_id):
            yield template
        else:
            yield from (in_pool(template, pool.name) for pool in pools.list_pools(template.resource_id))


def describe(resource: str, pool: str) -> str:
    """Return what a place is called: the resource, and its pool where that is named."""
    return f"{resource} in the pool {pool}" if pool else resource


def find_pool(job: Job) -> str:
    """Return the name of the pool in which a job is, or will be once it is queued."""
    known = workloads.find_pool_name(job.workload_id) if job.workload_id is not None else None
    return known or ResourcePools([job.resource_id]).find(job.resource_id, get_spec(job).pool).name


def find_with_capacity(templates: Collection[Template]) -> frozenset[tuple[str, str]]:
    """Return the ids and pools of those that could start a job now, in a fixed number of queries."""
    resource_ids = {template.resource_id for template in templates}
    nodes, pools = nodes_of(_SYSTEM, resource_ids), ResourcePools(resource_ids)
    columns = (
        *("resource_id", "node_name", "cpu_millicores", "memory_bytes", "gpus", "replicas", "replica_count"),
        *("launcher_cpu_millicores", "launcher_memory_bytes"),
    )
    held: dict[tuple[str, str], list[Holding]] = {}
    rows = Job.objects.filter(resource__in=sorted(resource_ids), state__in=sorted(HOLDING)).order_by()
    for job in rows.only(*columns):
        # An elastic job has fewer places at times.
        for (node, gpus), (cpu_millicores, memory_bytes) in zip(job.places, job.sizes, strict=False):
            holding = Holding(job.pk, node, cpu_millicores, memory_bytes, gpus, None)
            held.setdefault((job.resource_id, node), []).append(holding)
    return frozenset(
        (template.pk, template.pool)
        for template in templates
        if any(
            fits(_ask_of(template), amounts, held.get((template.resource_id, name), []))
            for name, amounts in nodes.get(place_of(template, pools, nodes), ())
        )
    )


def nodes_of(actor: Actor, resource_ids: set[str], *, are_open: bool = True) -> dict[Place, list[tuple[str, Amounts]]]:
    """Return the nodes that take work, by resource and pool; without `are_open` all that are known."""
    rows = node_selectors.list_nodes(actor=actor).prefetch_related(None).prefetch_related("gpus")
    nodes: dict[Place, list[tuple[str, Amounts]]] = {}
    taken = {"is_ready": True, "is_drained": False} if are_open else {}
    for node in rows.filter(resource_id__in=resource_ids, **taken):
        devices = 1000 * len(node.gpus.all())
        amounts = Amounts(node.cpu_millicores, node.memory_bytes, devices)
        nodes.setdefault((node.resource_id, node.pool_id), []).append((node.name, amounts))
    return nodes


def _ask_of(template: Template) -> Amounts:
    return Amounts(template.cpu_millicores, template.memory_bytes, template.gpu_milli)


def explain_closed(*, actor: Actor, job: Job) -> str:
    """Say which places of its pools do not count for a job that waits elsewhere, and why; empty: all of them do.

    A job that has run stays where it is.
    """
    spec = get_spec(job)
    if job.state != JobState.PENDING or not spec.pools or job.evictions:
        return ""
    views = pools.view_pools(pools.list_pools(actor=actor).filter(name__in=spec.pools))
    present = job.resource_id, find_pool(job)
    alike = {each.name: each for each in resources.list_resources(actor=actor)}
    others = [
        (alike[name], view.pool)
        for view in sorted(views, key=lambda view: spec.pools.index(view.pool.name))
        for name in sorted(set(view.resources) & alike.keys())
        if alike[name].is_simulated == job.resource.is_simulated and (alike[name].pk, view.pool.name) != present
    ]
    open_nodes = nodes_of(actor, {each.pk for each, _ in others})
    closed = [(each, pool) for each, pool in others if each.is_lost or (each.pk, pool.pk) not in open_nodes]
    return " ".join(_closed_in_words(each, pool.name) for each, pool in closed)


def _closed_in_words(resource: Resource, pool: str) -> str:
    why = "it does not answer" if resource.is_lost else "all of its nodes are drained or do not answer"
    return f"{resource.name} (pool {pool}) does not count now: {why}."
