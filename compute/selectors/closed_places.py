"""The places among which a waiting job was to choose, and that do not count now: they do not answer, or are drained."""

from accounts.actor import Actor
from compute.engine.states import JobState
from compute.models import Job, Resource
from compute.selectors import capacity, resources
from compute.selectors.jobs import get_spec
from scheduler.selectors import pools


def explain_closed(*, actor: Actor, job: Job) -> str:
    """Say which resources of its pools do not count for a job that waits elsewhere, and why; empty: all of them do.

    A job that has run stays where it is.
    """
    spec = get_spec(job)
    if job.state != JobState.PENDING or not spec.pools or job.evictions:
        return ""
    views = pools.view_pools(pools.list_pools(actor=actor).filter(name__in=spec.pools))
    pool_of = {name: view.pool.name for view in views for name in view.resources}
    others = [
        each
        for each in resources.list_resources(actor=actor).exclude(pk=job.resource_id)
        if each.name in pool_of and each.is_simulated == job.resource.is_simulated
    ]
    open_nodes = capacity.nodes_of(actor, {each.pk for each in others})
    closed = [each for each in others if each.is_lost or not open_nodes[each.pk]]
    closed.sort(key=lambda each: (spec.pools.index(pool_of[each.name]), each.name))
    return " ".join(_in_words(each, pool_of[each.name]) for each in closed)


def _in_words(resource: Resource, pool: str) -> str:
    why = "it does not answer" if resource.is_lost else "all of its nodes are drained or do not answer"
    return f"{resource.name} (pool {pool}) does not count now: {why}."
