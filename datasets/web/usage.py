"""The usage tab: what is stored and what lies elsewhere, who used which commit, and where commits were cached."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from accounts.web.requests import PageRequest, text
from core.pagination import paginate
from datasets.selectors import datasets, storage, usage
from datasets.selectors import in_place as in_place_reads
from datasets.services import in_place
from datasets.web import heading

_USES, _COPIES, _IMPORTS = 100, 30, 100


def usage_page(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Show the newest uses, and the copies page by page."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    uses = usage.list_uses(request.actor, dataset, limit=_USES)
    imports = list(in_place_reads.list_imports(actor=request.actor, dataset=dataset)[:_IMPORTS])
    referenced = in_place_reads.measure_referenced(imports)
    copies = paginate(usage.list_copies(request.actor, dataset), cursor=text(request, "cursor"), limit=_COPIES)
    context = heading.of(request.actor, dataset, tab="usage") | {
        "uses": uses,
        "storage": storage.measure_dataset(actor=request.actor, dataset=dataset),
        "imports": [(row, referenced.get(row.pk, 0)) for row in imports],
        "copies": copies.items,
        "next_cursor": copies.next_cursor,
    }
    return render(request, "datasets/usage.html", context)


@require_POST
def promote_import(request: PageRequest, project: str, name: str, import_id: str) -> HttpResponse:
    """Have the content of an import in place copied into the store."""
    row = in_place_reads.get_import(actor=request.actor, import_id=import_id)
    in_place.promote(actor=request.actor, row=row)
    messages.success(request, "Its files are being copied into the store.")
    return redirect("datasets:usage", project=project, name=name)


@require_POST
def check_import(request: PageRequest, project: str, name: str, import_id: str) -> HttpResponse:
    """Have the files of an import in place compared with what they were."""
    row = in_place_reads.get_import(actor=request.actor, import_id=import_id)
    in_place.request_check(actor=request.actor, row=row)
    messages.success(request, "Its files are being compared with what they were.")
    return redirect("datasets:usage", project=project, name=name)
