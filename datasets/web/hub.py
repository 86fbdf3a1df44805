"""The hub: every dataset that a person may see, making a new one, and deleted ones, which can be restored."""

from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from accounts.errors import InvalidName
from accounts.permissions import Level
from accounts.selectors import get_project, list_projects
from accounts.web.requests import PageRequest, text
from core.pagination import paginate, read_sort
from datasets.errors import DatasetExists
from datasets.models import Dataset
from datasets.selectors import caches, commits, hub
from datasets.selectors import datasets as selectors
from datasets.selectors.commits import CommitView
from datasets.services import datasets
from web.refused_forms import add_error, name_field, show_again, shown

_ROWS = 50


@dataclass(frozen=True)
class DatasetRow:
    """A dataset with its newest commit; None before the first."""

    dataset: Dataset
    newest: CommitView | None


class DatasetForm(forms.Form):
    """A new dataset."""

    project = forms.CharField(widget=forms.Select())
    name = name_field(help_text="Lower-case letters, digits and dashes.")
    kind = forms.CharField(
        required=False,
        max_length=30,
        label="Type",
        help_text="For example images, tabular or text.",
        widget=forms.TextInput({"list": "kinds", "placeholder": "general"}),
    )
    description = forms.CharField(required=False, max_length=2000, label="What is in it?")


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
    context: dict[str, Any] = {
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
    form = shown(request, DatasetForm(auto_id="new-%s", initial={"project": filters["project"]}))
    form.fields["project"].widget.choices = [(each.name, each.name) for each in context["writable"]]
    return render(request, "datasets/hub.html", context | {"form": form})


@require_POST
def create(request: PageRequest) -> HttpResponse:
    """Make a dataset and show it."""
    project = get_project(actor=request.actor, name=request.POST.get("project", ""))
    form = DatasetForm(request.POST, auto_id="new-%s")
    if form.is_valid():
        fields = {name: form.cleaned_data[name] for name in ("name", "description", "kind")}
        try:
            dataset = datasets.create_dataset(actor=request.actor, project=project, **fields)
        except (InvalidName, DatasetExists) as error:
            add_error(form, error)
        else:
            messages.success(
                request, f"{project.name}/{dataset.name} exists. Drop files on this page to bring its first commit."
            )
            return redirect("datasets:files", project=project.name, name=dataset.name)
    return show_again(request, "datasets:hub", form)


def deleted_page(request: PageRequest) -> HttpResponse:
    """List the deleted datasets that the reader may restore."""
    page = paginate(selectors.list_deleted(actor=request.actor), cursor=text(request, "cursor"), limit=_ROWS)
    return render(request, "datasets/deleted.html", {"rows": page.items, "next_cursor": page.next_cursor})


@require_POST
def restore_dataset(request: PageRequest, dataset_id: str) -> HttpResponse:
    """Bring back a deleted dataset and show it."""
    dataset = selectors.get_deleted(actor=request.actor, dataset_id=dataset_id)
    restored = datasets.restore_dataset(actor=request.actor, dataset=dataset, name=request.POST.get("name", "").strip())
    messages.success(request, f"{restored.project.name}/{restored.name} is restored. Its commits can be cached again.")
    return redirect("datasets:files", project=restored.project.name, name=restored.name)


@require_POST
def delete_for_good(request: PageRequest, dataset_id: str) -> HttpResponse:
    """Delete a dataset for good that could still be restored."""
    dataset = selectors.get_deleted(actor=request.actor, dataset_id=dataset_id)
    datasets.delete_for_good(actor=request.actor, dataset=dataset)
    messages.success(request, f"{dataset.project.name}/{dataset.name} is deleted for good.")
    return redirect("datasets:deleted")
