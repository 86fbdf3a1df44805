"""Deleted datasets, which admins of their project can restore for some days."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from accounts.web.requests import PageRequest, text
from core.pagination import paginate
from datasets.selectors import datasets as selectors
from datasets.services import datasets

_ROWS = 50


def deleted_page(request: PageRequest) -> HttpResponse:
    """List the deleted datasets that the reader may restore."""
    page = paginate(selectors.list_deleted(actor=request.actor), cursor=text(request, "cursor"), limit=_ROWS)
    return render(request, "datasets/deleted.html", {"rows": page.items, "next_cursor": page.next_cursor})


@require_POST
def restore(request: PageRequest, dataset_id: str) -> HttpResponse:
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
