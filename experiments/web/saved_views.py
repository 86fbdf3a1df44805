"""Saving a view of the experiments' table under a name, renaming and deleting one."""

from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.selectors import get_project
from accounts.web.requests import PageRequest
from core.errors import InvalidInput
from experiments.errors import ViewExists
from experiments.models import SavedView
from experiments.selectors import saved_views as selectors
from experiments.services import saved_views
from web.refused_forms import add_error, show_again


class NameForm(forms.Form):
    """What a view is called."""

    name = forms.CharField(max_length=saved_views.MAX_NAME)


class ViewForm(NameForm):
    """A view under a name, in a project."""

    query = forms.CharField(required=False, widget=forms.HiddenInput())
    project = forms.CharField()


def rename_form(view: SavedView, data: QueryDict | None = None) -> NameForm:
    """Return the form that gives a view another name."""
    return NameForm(data, auto_id=f"rename-view-{view.pk}-%s", initial={"name": view.name})


@require_POST
def save(request: PageRequest) -> HttpResponse:
    """Keep the view that the page shows, for the project that the form names."""
    project = get_project(actor=request.actor, name=request.POST.get("project", "").strip())
    form = ViewForm(request.POST, auto_id="save-view-%s")
    if form.is_valid():
        name, query = form.cleaned_data["name"], form.cleaned_data["query"]
        try:
            view = saved_views.save_view(actor=request.actor, project=project, name=name, query=query)
        except (InvalidInput, ViewExists) as error:
            add_error(form, error)
        else:
            messages.success(request, f"The view '{view.name}' is saved for everybody in {project.name}.")
            return redirect(address_of(view))
    return show_again(request, "experiments:experiments", form)


@require_POST
def rename(request: PageRequest, view_id: str) -> HttpResponse:
    """Give a view another name."""
    view = selectors.get_view(actor=request.actor, view_id=view_id)
    before, form = view.name, rename_form(view, request.POST)
    if form.is_valid():
        try:
            saved_views.rename_view(actor=request.actor, view=view, name=form.cleaned_data["name"])
        except (InvalidInput, ViewExists) as error:
            add_error(form, error)
        else:
            messages.success(request, f"The view '{before}' is called '{view.name}' now.")
            return redirect(address_of(view))
    return show_again(request, "experiments:experiments", form)


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
