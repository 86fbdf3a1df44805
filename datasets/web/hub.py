"""The hub: every dataset that a person may see, and making a new one."""

from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from accounts.permissions import Level
from accounts.selectors import get_project, list_projects
from accounts.web.requests import PageRequest, text
from datasets.models import Dataset
from datasets.selectors import caches, commits, hub
from datasets.selectors import datasets as selectors
from datasets.selectors.commits import CommitView
from datasets.services import datasets
from web.sorting import read_sort

_ROWS = 50


@dataclass(frozen=True)
class DatasetRow:
    """A dataset with its newest commit; None before the first."""

    dataset: Dataset
    newest: CommitView | None


def hub_page(request: PageRequest) -> HttpResponse:
    """List datasets: filtered, and sorted by the headings."""
    filters = {name: text(request, name) or "" for name in ("q", "project", "kind", "cached")}
    sort = read_sort(request, hub.SORTS, "-new")
    rows = hub.list_rows(
        actor=request.actor,
        project=filters["project"],
        text=filters["q"],
        kind=filters["kind"],
        cached=filters["cached"],
    )
    page = sort.paginate(rows, cursor=text(request, "cursor"), limit=_ROWS)
    heads = {dataset.pk: selectors.newest_commit_of(dataset) for dataset in page.items}
    views = {view.commit.id: view for view in commits.view_commits([head for head in heads.values() if head])}
    projects = list(list_projects(actor=request.actor))
    context = {
        "rows": [
            DatasetRow(dataset, views[head.id] if (head := heads[dataset.pk]) is not None else None)
            for dataset in page.items
        ],
        "next_cursor": page.next_cursor,
        "sort": sort,
        "totals": hub.measure(actor=request.actor),
        "filters": filters,
        "is_filtered": any(filters.values()),
        # The project is chosen for all pages: what it does not have yet is no matter of a filter.
        "is_searched": any(value for key, value in filters.items() if key != "project"),
        "kinds": hub.list_kinds(actor=request.actor),
        "sites": list(caches.list_sites(actor=request.actor)),
        "projects": projects,
        "has_deleted": selectors.list_deleted(actor=request.actor).exists(),
        "writable": [each for each in projects if (request.actor.level_in(each.id) or 0) >= Level.WRITE],
    }
    return render(request, "datasets/hub.html", context)


@require_POST
def create(request: PageRequest) -> HttpResponse:
    """Make a dataset and show it."""
    project = get_project(actor=request.actor, name=request.POST.get("project", ""))
    dataset = datasets.create_dataset(
        actor=request.actor,
        project=project,
        name=request.POST.get("name", "").strip(),
        description=request.POST.get("description", "").strip(),
        kind=request.POST.get("kind", "").strip(),
    )
    messages.success(
        request, f"{project.name}/{dataset.name} exists. Drop files on this page to bring its first commit."
    )
    return redirect("datasets:files", project=project.name, name=dataset.name)
