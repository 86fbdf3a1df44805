"""What this app adds to the shell: an entry of the rail, what the search finds, and who uses datasets."""

from collections.abc import Sequence

from django.urls import reverse

from accounts.actor import Actor
from datasets.selectors import usage
from experiments.selectors import dataset_uses, experiments
from web import navigation, search
from web.navigation import Entry, Group
from web.search import Hit


def _count(actor: Actor) -> int:
    return experiments.list_experiments(actor=actor, is_recorded=True).count()


def _find(actor: Actor, text: str) -> Sequence[Hit]:
    rows = search.find_rows(experiments.list_experiments(actor=actor), text, "title", "note")
    return [Hit(row.title, reverse("experiments:experiment", args=[row.pk]), row.project.name) for row in rows]


navigation.add_entry(Entry("Experiments", "/experiments/", "flask", Group.WORK, 40, ("/experiments/",), _count))
usage.add_source(dataset_uses.find_uses)
search.add_source("Experiments", "flask", _find)
