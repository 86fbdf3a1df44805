"""What a page view receives."""

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

from accounts.actor import Actor


class PageRequest(HttpRequest):
    """The request of a signed-in person; the middleware lets no other reach a page."""

    actor: Actor
    htmx: HtmxDetails


def text(request: HttpRequest, name: str) -> str | None:
    """Return a value of the address's query without surrounding space; None when it is missing or empty."""
    return request.GET.get(name, "").strip() or None
