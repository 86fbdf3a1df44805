"""What this app adds to the shell: entries of the rail, and what the search finds."""

from collections.abc import Sequence

from django.urls import reverse

from accounts.actor import Actor
from datasets.selectors import caches, datasets
from web import navigation, search
from web.navigation import Entry, Group, Tab
from web.search import Hit


def _count_datasets(actor: Actor) -> int:
    return datasets.list_datasets(actor=actor).count()


def _fill_of_caches(actor: Actor) -> str:
    capacities = caches.measure_capacities(list(caches.list_sites(actor=actor))).values()
    total = sum(capacity.total_bytes for capacity in capacities)
    committed = sum(capacity.committed_bytes for capacity in capacities)
    return f"{round(100 * committed / total)} %" if total else ""


def _find_datasets(actor: Actor, text: str) -> Sequence[Hit]:
    return [
        Hit(
            f"{dataset.project.name}/{dataset.name}",
            reverse("datasets:files", args=[dataset.project.name, dataset.name]),
            dataset.description,
        )
        for dataset in datasets.list_datasets(actor=actor, text=text)[: search.LIMIT]
    ]


navigation.add_entry(Entry("Datasets", "/datasets/", "database", Group.WORK, 20, ("/datasets/",), _count_datasets))
navigation.add_entry(Entry("Cache", "/cache/", "bolt", Group.PLACES, 10, ("/cache/",), _fill_of_caches))
navigation.add_tab(Tab("Cache policy", "/settings/cache/", 50))
search.add_source("Datasets", "database", _find_datasets)
