"""A person's own page: what they are called, their password, where they have a role."""

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render

from accounts import selectors
from accounts.permissions import Role
from accounts.services import access
from accounts.web.requests import PageRequest


class NameForm(forms.Form):
    """What the person is called."""

    first_name = forms.CharField(max_length=150, required=False, label="First name")
    last_name = forms.CharField(max_length=150, required=False, label="Last name")


def profile_page(request: PageRequest) -> HttpResponse:
    """Show the person who is signed in; a POST changes their name."""
    actor = request.actor
    person = selectors.get_person(actor=actor, username=actor.name)
    initial = {"first_name": person.first_name, "last_name": person.last_name}
    form = NameForm(request.POST or None, initial=initial)
    if form.is_valid():
        access.set_own_name(actor=actor, **form.cleaned_data)
        messages.success(request, "Your name is changed.")
        return redirect("accounts:profile")
    joined = selectors.list_joined(actor=actor)
    roles = [(project, Role.of(actor.levels[project.pk])) for project in joined]
    return render(request, "accounts/profile.html", {"person": person, "form": form, "roles": roles})
