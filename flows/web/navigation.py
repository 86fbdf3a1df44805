"""What this app adds to the shell: entries of the rail, and what the search finds."""

from collections.abc import Sequence

from django.urls import reverse

from accounts.actor import Actor
from datasets.selectors import usage
from flows.selectors import dataset_uses, experiments, flows, runs
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


def _find_runs(actor: Actor, text: str) -> Sequence[Hit]:
    """Find runs by the name of their flow and their number: `digits #3` or `#3`."""
    name, _, number = text.rpartition("#") if "#" in text else (text, "", "")
    found = runs.list_runs(actor=actor).filter(flow__name__icontains=name.strip())
    if number.strip().isdecimal():
        found = found.filter(number=int(number))
    return [
        Hit(f"{run.flow.name} #{run.number}", reverse("flows:run", args=[run.pk]), f"{run.project.name}, {run.state}")
        for run in found[: search.LIMIT]
    ]


def _find_experiments(actor: Actor, text: str) -> Sequence[Hit]:
    found = experiments.list_experiments(actor=actor).filter(title__icontains=text)[: search.LIMIT]
    return [Hit(row.title, reverse("flows:experiment", args=[row.pk]), row.project.name) for row in found]


navigation.add_entry(Entry("Flows", "/flows/", "sitemap", Group.WORK, 30, ("/flows/", "/runs/"), _count_flows))
navigation.add_entry(
    Entry("Experiments", "/experiments/", "flask", Group.WORK, 40, ("/experiments/",), _count_experiments)
)
usage.add_source(dataset_uses.find_uses)
search.add_source("Flows", "sitemap", _find_flows)
search.add_source("Runs", "player-play", _find_runs)
search.add_source("Experiments", "flask", _find_experiments)
