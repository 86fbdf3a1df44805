"""The shape of a job that names no template: how much of a node it gets, and on which resource it may run."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from accounts.permissions import Actor
from compute.engine.holders import Amounts, count_empty, fits
from compute.engine.placing import PodOptions
from compute.errors import InvalidJobSpec, NoResourceFits, ResourceUnconfined
from compute.models import Resource, Template
from compute.selectors import made_templates, pool_places, templates
from compute.selectors import resources as resource_selectors
from compute.selectors.made_templates import OwnSize
from compute.selectors.pool_places import Place, in_pool
from compute.selectors.templates import placing_of
from core import units
from core.units import ONE_GPU
from scheduler.selectors import pools
from scheduler.selectors.resource_pools import ResourcePool, ResourcePools
from scheduler.services.workloads import PodSet

_MOST_NAMED = 5


@dataclass(frozen=True)
class Ask(OwnSize):
    """What a job needs of the resource that runs it, and where to look: on one resource, or in pools.

    `pools` come in the order in which they are taken. On a named resource these are all of its pools where none is
    named, those that are `preferred` first. `commits` are the ids of those that it reads. `volumes` are written as in
    `engine/volumes`; simulated nodes take any.
    """

    resource: str = ""
    pools: Sequence[str] = (pools.DEFAULT,)
    preferred: Sequence[str] = ()
    replicas: int = 1
    needs_image: bool = False
    commits: Sequence[str] = ()
    starts_early: bool = False
    keeps_checkpoints: bool = False
    ports: Sequence[int] = ()
    volumes: Sequence[str] = ()


def find_template(*, actor: Actor, ask: Ask) -> Template:
    """Return the template for a job, stored or not. Where no node takes work now, the job waits for one that will.

    One whose nodes exist goes before those that are simulated, then one where the job's data is, then one that could
    start it now, then one where its data is sooner, then one of an earlier pool. What waits may move: see
    `workers/relocation`. Raises InvalidJobSpec, ResourceNotFound, PoolNotFound, and NoResourceFits, which says of each
    resource why it cannot run the job.
    """
    fitting, _ = _find_places(actor, ask)
    if not fitting:
        fitting, faults = _find_places(actor, ask, are_open=False)
        _require_some(ask, fitting, faults)
    ready = pool_places.find_with_capacity(fitting)
    arrivals = resource_selectors.list_arrivals(ask.commits, {each.resource_id for each in fitting})

    def rank(template: Template) -> tuple[object, ...]:
        has_data, ready_in_s = True, 0.0
        if (arrival := arrivals.get(template.resource_id)) is not None:
            has_data, ready_in_s = arrival.is_ready, math.inf if arrival.ready_in_s is None else arrival.ready_in_s
        return template.resource.is_simulated, not has_data, (template.pk, template.pool) not in ready, ready_in_s

    return min(fitting, key=rank)


def find_places(*, actor: Actor, ask: Ask, fault_of: Callable[[Template], str]) -> list[Template]:
    """Return the template of a job at each place that can run it and of which `fault_of` says nothing, the best first.

    Those whose nodes take work now go before others, then they come in the order of the pools. One whose nodes are
    simulated is none where there is another. Raises as `find_template` does.
    """
    fitting, faults = _find_places(actor, ask, are_open=False)
    open_places, _ = _find_places(actor, ask)
    known = {(each.resource_id, each.pool) for each in open_places}
    fitting = [*open_places, *(each for each in fitting if (each.resource_id, each.pool) not in known)]
    described = [(each, fault_of(each)) for each in fitting]
    usable = [each for each, fault in described if not fault]
    _require_some(ask, usable, [*faults, *dict.fromkeys(fault for _, fault in described if fault)])
    return [each for each in usable if not each.resource.is_simulated] or usable


def _require_some(ask: Ask, places: Sequence[Template], faults: Sequence[str]) -> None:
    if not places:
        names = f"the pool{'s' if len(ask.pools) > 1 else ''} {', '.join(ask.pools)}"
        where = ask.resource or names
        raise NoResourceFits(" ".join([f"No resource of {where} can run the job.", *faults[:_MOST_NAMED]]))


def list_places(*, actor: Actor, ask: Ask) -> list[Template]:
    """Return the template of a job at each place that can run it, those of its first pool first.

    Pools that are gone are no places. Raises ResourceNotFound.
    """
    known = {pool.name for pool in pools.list_pools(actor=actor)}
    return _find_places(actor, replace(ask, pools=[name for name in ask.pools if name in known]))[0]


def _find_places(actor: Actor, ask: Ask, *, are_open: bool = True) -> tuple[list[Template], list[str]]:
    """Return the template of a job at each place that can run it, and why the others cannot.

    Where some places are large enough for all of its replicas, only those count. Without `are_open` nodes count that
    take no work now: they are drained, or do not answer.
    """
    if ask.gpu_milli > ONE_GPU and ask.gpu_milli % ONE_GPU:
        raise InvalidJobSpec("More than one GPU must be whole ones.")
    if ask.cpu_millicores == 0 or ask.memory_bytes == 0:
        raise InvalidJobSpec("A job needs some CPU and some memory.")
    known = ResourcePools()
    places = _list_places(actor, ask, known)
    nodes = pool_places.nodes_of(actor, {resource.pk for resource, _ in places}, are_open=are_open)
    answers = [
        _fit(
            actor,
            ask,
            resource,
            pool.name if known.is_divided(resource.pk) else "",
            [amounts for _, amounts in nodes.get((resource.pk, pool.id), ())],
        )
        for resource, pool in places
    ]
    faults = dict.fromkeys(each for each in answers if isinstance(each, str))
    fitting = [each for each in answers if isinstance(each, Template)]
    large = [
        each for each in fitting if _could_run(each, ask.replicas, pool_places.place_of(each, known, nodes), nodes)
    ]
    return large or fitting, list(faults)


def get_template(
    *,
    actor: Actor,
    full_name: str,
    ports: Sequence[int] = (),
    volumes: Sequence[str] = (),
    pool: str = "",
    preferred: Sequence[str] = (),
    replicas: int = 1,
) -> Template:
    """Return the template that a job names, in a pool of its resource where labels divide that.

    That is the one which the job or the template names; else the first of those which are `preferred`, then of the
    others, which is large enough for all replicas, or for one. Raises TemplateNotFound, ResourceUnconfined,
    PoolNotFound, InvalidJobSpec, and NoResourceFits for ports and volumes that its resource lacks, and for a pool that
    has no nodes of it.
    """
    template = templates.get_template(actor=actor, full_name=full_name)
    resource_selectors.require_use(actor=actor, resources=[template.resource])
    if fault := _missing_offer(template.resource, ports, volumes):
        raise NoResourceFits(fault)
    known = ResourcePools([template.resource_id])
    # The pool of a template may be gone: then it names none.
    own = template.pool if known.has(template.resource_id, template.pool) else ""
    if pool:
        if own and pool != own:
            raise InvalidJobSpec(f"Jobs of {full_name} are in the pool {own}.")
        _require_pool_of(actor, template.resource, pool, known)
    if not known.is_divided(template.resource_id):
        return template
    if named := pool or own:
        return in_pool(template, named)
    order = _ordered(template.resource, known, preferred)
    return in_pool(template, _choose_pool(actor, template, order, replicas).name)


def _choose_pool(actor: Actor, template: Template, order: Sequence[ResourcePool], replicas: int) -> ResourcePool:
    """Return the first pool that is large enough for all replicas of a job, else for one of them, else the first."""
    for count, are_open in product(dict.fromkeys((replicas, 1)), (True, False)):
        nodes = pool_places.nodes_of(actor, {template.resource_id}, are_open=are_open)
        for pool in order:
            if _could_run(template, count, (template.resource_id, pool.id), nodes):
                return pool
    return order[0]


def _could_run(
    template: Template, count: int, place: Place, nodes: Mapping[Place, Sequence[tuple[str, Amounts]]]
) -> bool:
    """Return whether the nodes of a place could run so many replicas at once, were they empty."""
    amounts = Amounts(template.cpu_millicores, template.memory_bytes, template.gpu_milli)
    return sum(count_empty(amounts, node) for _, node in nodes.get(place, ())) >= count


def _list_places(actor: Actor, ask: Ask, known: ResourcePools) -> list[tuple[Resource, ResourcePool]]:
    """Return the resources where to look, each with the pool of it, in the order of the pools."""
    if ask.resource:
        resource = resource_selectors.get_resource(actor=actor, name=ask.resource)
        for name in ask.pools:
            _require_pool_of(actor, resource, name, known)
        pools_there = [known.find(resource.pk, name) for name in ask.pools]
        return [(resource, pool) for pool in pools_there or _ordered(resource, known, ask.preferred)]
    for name in ask.pools:
        pools.require_pool(actor=actor, name=name)
    order = {name: position for position, name in enumerate(ask.pools)}
    views = pools.view_pools(pools.list_pools(actor=actor).filter(name__in=ask.pools))
    resources = {each.name: each for each in resource_selectors.list_resources(actor=actor)}
    return [
        (resources[name], ResourcePool(view.pool.pk, view.pool.name))
        for view in sorted(views, key=lambda view: order[view.pool.name])
        for name in sorted(set(view.resources) & resources.keys())
    ]


def _ordered(resource: Resource, known: ResourcePools, preferred: Sequence[str]) -> list[ResourcePool]:
    """Return the pools of a resource, those that are preferred first."""
    order = {name: position for position, name in enumerate(preferred)}
    return sorted(known.list_pools(resource.pk), key=lambda pool: order.get(pool.name, len(order)))


def _require_pool_of(actor: Actor, resource: Resource, name: str, known: ResourcePools) -> None:
    pools.require_pool(actor=actor, name=name)
    if fault := known.describe_missing(resource.pk, resource.name, name):
        raise NoResourceFits(fault)


def _fit(actor: Actor, ask: Ask, resource: Resource, pool: str, nodes: Sequence[Amounts]) -> Template | str:
    """Return the template that a job has on a resource, or why it has none there.

    Of a resource that labels divide, `nodes` are those in the pool that is named.
    """
    if fault := next(_faults(actor, ask, resource), ""):
        return fault
    template = made_templates.make_template(ask, resource, resource.templates.all(), nodes, pool)
    if ask.starts_early and (fault := templates.describe_early_mismatch(template)):
        return fault
    amounts = Amounts(template.cpu_millicores, template.memory_bytes, template.gpu_milli)
    if not any(fits(amounts, node, []) for node in nodes):
        return f"{pool_places.describe(resource.name, pool)} has no node with {_in_words(amounts)}."
    placing = placing_of(ask.placing, PodOptions.read(template.pod))
    pods = PodSet(amounts.cpu_millicores, amounts.memory_bytes, amounts.gpu_milli, **placing)
    return templates.describe_unplaceable(resource, ask.placing, ask.replicas, pods, pool=pool) or template


def _faults(actor: Actor, ask: Ask, resource: Resource) -> Iterator[str]:
    if fault := templates.describe_kind_mismatch(
        resource,
        gpu_milli=ask.gpu_milli,
        replicas=ask.placing.count_pods(ask.replicas),
        needs_image=ask.needs_image,
    ):
        yield fault
    if ask.commits and not resource_selectors.list_readable_sites(resource):
        yield f"{resource.name} has no cache site that its jobs can read."
    if ask.keeps_checkpoints and (fault := templates.describe_lack_of_checkpoints(resource)):
        yield f"{resource.name} keeps no checkpoints: {fault}"
    if fault := _missing_offer(resource, ask.ports, ask.volumes):
        yield fault
    try:
        resource_selectors.require_use(actor=actor, resources=[resource])
    except ResourceUnconfined as error:
        yield error.message


def _missing_offer(resource: Resource, ports: Sequence[int], volumes: Sequence[str]) -> str:
    return templates.describe_lack_of_volumes(resource, volumes) or templates.describe_lack_of_ports(resource, ports)


def _in_words(amounts: Amounts) -> str:
    parts = [f"{units.format_cpu(amounts.cpu_millicores)} CPU", units.format_memory(amounts.memory_bytes)]
    return ", ".join([*parts, *([f"{units.format_gpus(amounts.gpu_milli)} GPU"] if amounts.gpu_milli else [])])
