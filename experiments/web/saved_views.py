"""Saving a view of the experiments' table under a name, renaming and deleting one."""

from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.selectors import get_project
from accounts.web.requests import PageRequest
from experiments.models import SavedView
from experiments.selectors import saved_views as selectors
from experiments.services import saved_views


@require_POST
def save(request: PageRequest) -> HttpResponse:
    """Keep the view that the page shows, for the project that the form names."""
    project = get_project(actor=request.actor, name=request.POST.get("project", "").strip())
    name, query = request.POST.get("name", ""), request.POST.get("query", "")
    view = saved_views.save_view(actor=request.actor, project=project, name=name, query=query)
    messages.success(request, f"The view '{view.name}' is saved for everybody in {project.name}.")
    return redirect(address_of(view))


@require_POST
def rename(request: PageRequest, view_id: str) -> HttpResponse:
    """Give a view another name."""
    view = selectors.get_view(actor=request.actor, view_id=view_id)
    before = view.name
    saved_views.rename_view(actor=request.actor, view=view, name=request.POST.get("name", ""))
    messages.success(request, f"The view '{before}' is called '{view.name}' now.")
    return redirect(address_of(view))


@require_POST
def delete(request: PageRequest, view_id: str) -> HttpResponse:
    """Delete a view; the experiments stay."""
    view = selectors.get_view(actor=request.actor, view_id=view_id)
    project = view.project.name
    saved_views.delete_view(actor=request.actor, view=view)
    messages.success(request, f"The view '{view.name}' is deleted.")
    return redirect(f"{reverse('experiments:experiments')}?{urlencode({'project': project})}")


def address_of(view: SavedView) -> str:
    """Return the address of the table as the view shows it."""
    return f"{reverse('experiments:experiments')}?{urlencode({'project': view.project.name})}&{view.query}"
