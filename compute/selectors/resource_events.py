"""What happened to a resource lately: lost and back, drained, attached, evictions, and what a cluster warns of."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

from accounts import selectors as accounts
from accounts.permissions import Actor
from compute.models import Resource
from compute.selectors import resources
from compute.selectors.evictions import mark_deleted
from scheduler.selectors import evictions, nodes

LOST, BACK = "compute.lose_resource", "compute.find_resource"
"""The actions of the audit log by which the platform notes that a resource stopped to answer, or answers again."""

_MOST = 30
_SENTENCES = {
    LOST: "does not answer: {error}",
    BACK: "answers again",
    "compute.attach_resource": "attached",
    "compute.replace_credentials": "credentials replaced",
    "compute.set_sites": "reads the cache sites {sites}",
    "compute.set_config": "settings changed",
    "scheduler.drain_node": "the node {name} takes no new jobs",
    "scheduler.open_node": "the node {name} takes new jobs again",
}


@dataclass(frozen=True)
class ResourceEvent:
    """Something that happened to a resource. `source` is `platform`, `scheduler` or `cluster`.

    `by` says who did it, to site admins alone; `job` names the job that it is about, where it has a page.
    """

    at: datetime
    source: str
    text: str
    is_warning: bool = False
    by: str = ""
    job: str = ""


def list_events(*, actor: Actor, resource: Resource) -> list[ResourceEvent]:
    """Return what happened to a resource, the newest first: evictions of jobs that the actor may see alone.

    What a cluster warns of names jobs of all projects, so only site admins see it.
    """
    events = [*_noted(actor, resource), *_evictions(actor, resource)]
    if actor.is_site_admin:
        events += _warnings(resource)
    return sorted(events, key=attrgetter("at"), reverse=True)[:_MOST]


def _noted(actor: Actor, resource: Resource) -> Iterator[ResourceEvent]:
    node_ids = nodes.list_nodes(actor=actor, resource=resource.name).values_list("pk", flat=True)
    entries = accounts.list_platform_entries([resource.pk, *node_ids]).filter(action__in=_SENTENCES)
    for entry in entries[:_MOST]:
        is_ours = entry.user_id is None
        yield ResourceEvent(
            entry.created_at,
            "platform",
            _sentence_of(entry.action, entry.target_name, entry.facts),
            is_warning=entry.action == LOST,
            by=entry.actor_name if actor.is_site_admin and not is_ours else "",
        )


def _sentence_of(action: str, name: str, facts: dict[str, Any]) -> str:
    sites = ", ".join(facts.get("sites", ())) or "of none"
    return _SENTENCES[action].format(name=name, error=facts.get("error", ""), sites=sites)


def _evictions(actor: Actor, resource: Resource) -> Iterator[ResourceEvent]:
    rows = evictions.list_evictions(actor=actor, resource_id=resource.pk)[:_MOST]
    for view in mark_deleted(evictions.view_evictions(actor=actor, rows=rows)):
        verb = "moved" if view.row.is_moved else "evicted"
        yield ResourceEvent(
            view.row.at,
            "scheduler",
            f"{view.job.label} of {view.job.project} was {verb}: {view.rule}",
            job=view.job.name,
        )


def _warnings(resource: Resource) -> Iterator[ResourceEvent]:
    for event in (resources.find_cluster_facts(resource) or {}).get("events", ()):
        times = f" ({event['count']} times)" if event["count"] > 1 else ""
        yield ResourceEvent(
            datetime.fromisoformat(event["at"]),
            "cluster",
            f"{event['about']}: {event['reason']}: {event['text']}{times}",
            is_warning=True,
        )
