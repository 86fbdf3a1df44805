"""The usage tab: what is stored and what lies elsewhere, who used which commit, and where commits were cached."""

from django.http import HttpResponse
from django.shortcuts import render

from accounts.web.requests import PageRequest, text
from core.pagination import paginate
from datasets.selectors import datasets, storage, usage
from datasets.web import heading

_USES, _COPIES = 100, 30


def usage_page(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Show the newest uses, and the copies page by page."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    uses = usage.list_uses(request.actor, dataset, limit=_USES)
    copies = paginate(usage.list_copies(request.actor, dataset), cursor=text(request, "cursor"), limit=_COPIES)
    context = heading.of(request.actor, dataset, tab="usage") | {
        "uses": uses,
        "storage": storage.measure_dataset(actor=request.actor, dataset=dataset),
        "copies": copies.items,
        "next_cursor": copies.next_cursor,
    }
    return render(request, "datasets/usage.html", context)
