"""The hub: every dataset that a person may see, and making a new one."""

from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from accounts.permissions import Level
from accounts.selectors import get_project, list_projects
from accounts.web.requests import PageRequest, text
from core.pagination import paginate
from datasets.models import Dataset
from datasets.selectors import commits
from datasets.selectors import datasets as selectors
from datasets.selectors.commits import CommitView
from datasets.services import datasets

_ROWS = 50


@dataclass(frozen=True)
class Row:
    """A dataset with its newest commit; None before the first."""

    dataset: Dataset
    newest: CommitView | None


def hub_page(request: PageRequest) -> HttpResponse:
    """List datasets, newest first."""
    project, wanted = text(request, "project"), text(request, "q")
    found = selectors.list_datasets(actor=request.actor, project=project or "", text=wanted or "")
    page = paginate(found, cursor=text(request, "cursor"), limit=_ROWS)
    heads = {dataset.pk: selectors.newest_commit_of(dataset) for dataset in page.items}
    views = {view.commit.id: view for view in commits.view_commits([head for head in heads.values() if head])}
    writable = [
        each for each in list_projects(actor=request.actor) if (request.actor.level_in(each.id) or 0) >= Level.WRITE
    ]
    context = {
        "rows": [
            Row(dataset, views[head.id] if (head := heads[dataset.pk]) is not None else None) for dataset in page.items
        ],
        "next_cursor": page.next_cursor,
        "total": found.count(),
        "project": project,
        "wanted": wanted,
        "projects": list_projects(actor=request.actor),
        "writable": writable,
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
    )
    messages.success(request, f"{project.name}/{dataset.name} exists. Its first commit comes from a folder of yours.")
    return redirect("datasets:files", project=project.name, name=dataset.name)
