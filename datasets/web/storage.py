"""What projects store and how much they may: seen by their members, limited by site admins."""

from django import forms
from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from accounts import selectors
from accounts.web.requests import PageRequest, text
from core import units
from core.form_fields import SizeField
from core.pagination import paginate
from datasets.selectors import storage
from datasets.services import storage_limits
from web.refused_forms import show_again, shown

_PROJECTS = 30


class LimitForm(forms.Form):
    """The most that a project may store; empty: no limit."""

    limit = SizeField(
        required=False,
        label="Limit (empty: none)",
        widget=forms.TextInput({"class": "form-control short", "placeholder": "10 TB"}),
    )


def _limit_form(project: str, data: QueryDict | None = None, *, limit: str = "") -> LimitForm:
    return LimitForm(data, auto_id=f"{project}-%s", initial={"limit": limit})


def storage_page(request: PageRequest) -> HttpResponse:
    """Show what each project stores, and what takes most of it."""
    page = paginate(selectors.list_projects(actor=request.actor), cursor=text(request, "cursor"), limit=_PROJECTS)
    measurements = storage.measure_projects(actor=request.actor, projects=page.items)
    rows = [(each, shown(request, _limit_form(each.project_name, limit=each.limit_text))) for each in measurements]
    return render(request, "datasets/storage.html", {"projects": rows, "next_cursor": page.next_cursor})


@require_POST
def set_limit(request: PageRequest, project: str) -> HttpResponse:
    """Limit what a project stores."""
    record = selectors.get_project(actor=request.actor, name=project)
    storage_limits.require_limit(actor=request.actor)
    form = _limit_form(project, request.POST)
    if form.is_valid():
        limit = form.cleaned_data["limit"]
        storage_limits.set_limit(actor=request.actor, project=record, limit_bytes=limit)
        most = "as much as it likes" if limit is None else f"at most {units.format_bytes(limit)}"
        messages.success(request, f"{project} may store {most}.")
        return redirect("datasets:storage")
    return show_again(request, "datasets:storage", form)
