"""What this app adds to the shell: entries of the rail, and what the search finds."""

from collections.abc import Sequence

from django.urls import reverse

from accounts.actor import Actor
from flows.selectors import experiments, flows
from web import navigation, search
from web.navigation import Entry, Group
from web.search import Hit


def _count_flows(actor: Actor) -> int:
    return flows.list_flows(actor=actor).count()


def _count_experiments(actor: Actor) -> int:
    return experiments.list_experiments(actor=actor).count()


def _find_flows(actor: Actor, text: str) -> Sequence[Hit]:
    found = flows.list_flows(actor=actor).filter(name__icontains=text)[: search.LIMIT]
    return [
        Hit(f"{flow.project.name}/{flow.name}", reverse("flows:flow", args=[flow.project.name, flow.name]), flow.title)
        for flow in found
    ]


navigation.add_entry(Entry("Flows", "/flows/", "sitemap", Group.WORK, 30, ("/flows/", "/runs/"), _count_flows))
navigation.add_entry(
    Entry("Experiments", "/experiments/", "flask", Group.WORK, 40, ("/experiments/",), _count_experiments)
)
search.add_source("Flows", "sitemap", _find_flows)
