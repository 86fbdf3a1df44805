"""The places among which a waiting job was to choose, and that do not count now: they do not answer, or are drained."""

from accounts.actor import Actor
from compute.engine.states import JobState
from compute.models import Job, Resource
from compute.selectors import capacity, resources
from compute.selectors.jobs import get_spec
from compute.selectors.pool_places import find_pool
from scheduler.selectors import pools


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
    open_nodes = capacity.nodes_of(actor, {each.pk for each, _ in others})
    closed = [(each, pool) for each, pool in others if each.is_lost or (each.pk, pool.pk) not in open_nodes]
    return " ".join(_in_words(each, pool.name) for each, pool in closed)


def _in_words(resource: Resource, pool: str) -> str:
    why = "it does not answer" if resource.is_lost else "all of its nodes are drained or do not answer"
    return f"{resource.name} (pool {pool}) does not count now: {why}."
