"""Where jobs go: to a resource, and in one that labels divide among pools to one of these.

A template stands for such a place: one of a divided resource names the pool.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy

from compute.engine.holders import Amounts, fits
from compute.models import Job, Template
from compute.selectors.jobs import get_spec
from scheduler.selectors import workloads
from scheduler.selectors.resource_pools import ResourcePools

Place = tuple[str, str]
"""The ids of a resource and of a pool of it."""


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
