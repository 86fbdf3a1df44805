"""Everybody who may sign in: for site admins, who add people and make them their first way in."""

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from accounts import selectors
from accounts.services import people, projects
from accounts.web.requests import PageRequest
from core.errors import PlatformError


class PersonForm(forms.Form):
    """A new person."""

    username = forms.CharField(max_length=63, label="Name", help_text="Lower-case letters, digits and dashes.")
    is_site_admin = forms.BooleanField(required=False, label="May administer the whole site")


def people_page(request: PageRequest) -> HttpResponse:
    """List people."""
    return _show(request, PersonForm())


@require_POST
def add_person(request: PageRequest) -> HttpResponse:
    """Add a person, who gets in by a link and then chooses a password."""
    form = PersonForm(request.POST)
    if not form.is_valid():
        return _show(request, form)
    try:
        person = projects.create_user(actor=request.actor, password=None, **form.cleaned_data)
    except PlatformError as error:
        if not request.actor.is_site_admin:
            raise
        form.add_error("username", f"{error.message} {error.hint}")
        return _show(request, form)
    messages.success(request, f"{person.username} is added. Make a sign-in link and send it to them.")
    return redirect("accounts:people")


@never_cache
@require_POST
def make_link(request: PageRequest, username: str) -> HttpResponse:
    """Make a one-time link and show it this once."""
    secret = people.make_sign_in_link(actor=request.actor, username=username)
    url = request.build_absolute_uri(reverse("accounts:sign_in_link", args=[secret]))
    return _show(request, PersonForm(), link=url, linked=username)


def _show(request: PageRequest, form: PersonForm, **more: str) -> HttpResponse:
    context = {"people": selectors.list_people(actor=request.actor), "form": form, **more}
    return render(request, "accounts/people.html", context)
