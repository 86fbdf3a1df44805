"""What this app adds to the shell: entries of the rail, what the search finds, and topics that pages can subscribe to.

The topics are `caches` (any cached commit), `copies:` and `imports:<dataset id>`.
"""

import re
from collections.abc import Sequence
from urllib.parse import urlencode

from django.urls import reverse

from accounts.permissions import Actor
from datasets import signals
from datasets.errors import DatasetNotFound
from datasets.models import Dataset
from datasets.selectors import caches, datasets, in_place
from datasets.selectors.search import find_commits, find_files
from datasets.web.paths import link_path
from nearline.content.paths import show_path
from web import live, navigation, search
from web.navigation import Entry, Group, Tab
from web.search import Hit

_SPECIAL = re.compile(r"[*?\[]")


def _count_datasets(actor: Actor) -> int:
    return datasets.list_datasets(actor=actor).count()


def _fill_of_caches(actor: Actor) -> str:
    capacities = caches.measure_capacities(list(caches.list_sites(actor=actor))).values()
    total = sum(capacity.total_bytes for capacity in capacities)
    committed = sum(capacity.committed_bytes for capacity in capacities)
    return f"{round(100 * committed / total)} %" if total else ""


def _find_datasets(actor: Actor, text: str) -> Sequence[Hit]:
    rows = search.find_rows(datasets.list_datasets(actor=actor), text, "name", "description")
    return [Hit(_name_of(dataset), _url_of(dataset), dataset.description) for dataset in rows]


def _find_commits(actor: Actor, text: str) -> Sequence[Hit]:
    return [
        Hit(
            commit.message.partition("\n")[0] or commit.short,
            _url_of(commit.dataset, ref=commit.id),
            f"{_name_of(commit.dataset)}@{commit.short}",
        )
        for commit in find_commits(actor=actor, text=text, limit=search.LIMIT)
    ]


def _find_files(actor: Actor, text: str) -> Sequence[Hit]:
    files = find_files(actor=actor, text=text, limit=search.LIMIT)
    hits = [
        Hit(show_path(path), f"{_url_of(each.dataset)}?file={link_path(path)}", _name_of(each.dataset))
        for each in files
        for path in each.paths
    ]
    pattern = f"**/*{_SPECIAL.sub('?', text)}*"
    rest = [
        Hit(f"All files with \N{LEFT DOUBLE QUOTATION MARK}{text}\N{RIGHT DOUBLE QUOTATION MARK}", url, name)
        for each in files
        if not each.is_complete
        for url, name in [(_url_of(each.dataset, glob=pattern), _name_of(each.dataset))]
    ]
    return hits + rest


def _name_of(dataset: Dataset) -> str:
    return f"{dataset.project.name}/{dataset.name}"


def _url_of(dataset: Dataset, **query: str) -> str:
    url = reverse("datasets:files", args=[dataset.project.name, dataset.name])
    return f"{url}?{urlencode(query)}" if query else url


def _allow_anybody(_actor: Actor, _key: str) -> None:
    """Everybody signed in may hear that some cached commit moved; which one, the page tells to who may see it."""


def _check_dataset(actor: Actor, dataset_id: str) -> None:
    if not datasets.list_datasets(actor=actor).filter(pk=dataset_id).exists():
        raise DatasetNotFound("There is no such dataset, or you are not a member of its project.")


navigation.add_entry(Entry("Datasets", "/datasets/", "database", Group.WORK, 20, ("/datasets/",), _count_datasets))
navigation.add_entry(
    Entry("Cache", "/cache/", "bolt", Group.PLACES, 10, ("/cache/",), _fill_of_caches, words="sites evictions")
)
navigation.add_tab(Tab("Cache policy", "/settings/cache/", 50, words="capacity idle days eviction sites"))
navigation.add_tab(
    Tab("Sources", "/settings/sources/", 53, site_admin_only=True, words="import in place bucket nfs folder promote")
)
navigation.add_tab(Tab("Storage", "/settings/storage/", 55, words="bytes limit quota stored space"))
search.add_source("Datasets", "database", _find_datasets)
search.add_source("Commits", "git-commit", _find_commits)
search.add_source("Files", "file", _find_files)
live.add_kind("caches", check=_allow_anybody, stamps=lambda keys: dict.fromkeys(keys, caches.stamp_of_all_copies()))
live.add_kind("copies", check=_check_dataset, stamps=caches.stamps_of_copies)
live.add_kind("imports", check=_check_dataset, stamps=in_place.stamps_of_imports)
signals.cached_commit_changed.connect(live.wake, dispatch_uid="datasets.live")
