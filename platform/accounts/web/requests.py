"""What a page view receives."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from accounts.actor import Actor

_MOST_LETTERS = 10_000


class PageRequest(HttpRequest):
    """The request of a signed-in person; the middleware lets no other reach a page."""

    actor: Actor
    htmx: HtmxDetails


def go_to(request: PageRequest, url: str) -> HttpResponse:
    """Lead the browser to another page, also where htmx would only replace a part of this one."""
    return HttpResponseClientRedirect(url) if request.htmx else redirect(url)


def to_members(request: PageRequest, project: str) -> HttpResponse:
    """Lead the browser to the settings of a project, to the rows that the request's own address names."""
    query = {**request.GET.dict(), "project": project}
    return redirect(f"{reverse('accounts:members')}?{urlencode(query)}")


def text(request: HttpRequest, name: str) -> str | None:
    """Return a value of the address's query without surrounding space; None when it is missing or empty.

    Of a longer one only so many letters count: SQLite refuses to look for 50,000 bytes.
    """
    return request.GET.get(name, "").strip()[:_MOST_LETTERS] or None
