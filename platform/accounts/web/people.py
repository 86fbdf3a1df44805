"""Everybody who may sign in: for site admins, who add people and make them their first way in."""

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from accounts import running_work, selectors
from accounts.services import access, projects
from accounts.web.requests import PageRequest, text
from core.errors import PlatformError
from core.pagination import paginate_by

_ROWS = 50


class PersonForm(forms.Form):
    """A new person."""

    username = forms.CharField(max_length=63, label="Name", help_text="Lower-case letters, digits and dashes.")
    is_site_admin = forms.BooleanField(
        required=False,
        label="May administer the whole site",
        widget=forms.CheckboxInput(attrs={"class": "form-check-input"}),
    )


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
    secret = access.make_sign_in_link(actor=request.actor, username=username)
    url = request.build_absolute_uri(reverse("accounts:sign_in_link", args=[secret]))
    return _show(request, PersonForm(), link=url, linked=username)


@require_POST
def disable(request: PageRequest, username: str) -> HttpResponse:
    """Sign a person out for good, and say what goes on without them."""
    is_stopped = "stop_work" in request.POST
    work = access.disable_person(actor=request.actor, username=username, stop_work=is_stopped)
    names = ", ".join(item.name for item in work)
    jobs_note = f" {'Stopped' if is_stopped else 'Still running'}: {names}." if names else ""
    messages.success(request, f"{username} is disabled and signed out everywhere.{jobs_note}")
    return redirect("accounts:people")


@require_POST
def enable(request: PageRequest, username: str) -> HttpResponse:
    """Let a person sign in again."""
    access.enable_person(actor=request.actor, username=username)
    messages.success(request, f"{username} may sign in again. Their old tokens stay revoked.")
    return redirect("accounts:people")


@require_POST
def sign_out(request: PageRequest, username: str) -> HttpResponse:
    """End every session of a person; one's own from the profile page."""
    access.sign_out_everywhere(actor=request.actor, username=username, revoke_tokens="revoke_tokens" in request.POST)
    if username == request.actor.name:
        return redirect("/")
    messages.success(request, f"{username} is signed out everywhere.")
    return redirect("accounts:people")


def _show(request: PageRequest, form: PersonForm, **more: str) -> HttpResponse:
    name = text(request, "person") or ""
    everybody = selectors.list_people(actor=request.actor, person=name)
    page = paginate_by(everybody, field="username", descending=False, cursor=text(request, "cursor"), limit=_ROWS)
    admins = selectors.list_people(actor=request.actor).filter(is_superuser=True, is_active=True)[:2]
    work = running_work.list_work([person.username for person in page.items])
    context = {
        "rows": [(person, [item for item in work if item.username == person.username]) for person in page.items],
        "next_cursor": page.next_cursor,
        "person": name,
        "last_admin": admins[0] if len(admins) == 1 else None,
        "form": form,
        **more,
    }
    return render(request, "accounts/people.html", context)
