"""What a request to a page tells: the person, the browser, the page before, and what its address asks for."""

from collections.abc import Callable
from urllib.parse import SplitResult, urlencode, urlsplit

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.crypto import get_random_string
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from accounts.permissions import Actor
from core import bounds

_FOR_PROGRAMS = ("/api/", "/store/")
_MOST_LETTERS = 10_000
_COOKIE = "known_browser"
_SALT = "accounts.known_browser"
_MAX_AGE_S = 365 * 24 * 3600


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


def is_for_program(request: HttpRequest) -> bool:
    """Whether the address belongs to programs: they check their callers themselves, and are told of failure here."""
    return request.path_info.startswith(_FOR_PROGRAMS)


def page_before(request: HttpRequest) -> SplitResult:
    """Return the address of the page of this site on which a form or a part stands; empty: it is not told."""
    try:
        page = urlsplit(request.headers.get("Referer", ""))
    except ValueError:  # whoever writes a header may write anything
        page = urlsplit("")
    return page if page.netloc == request.get_host() else urlsplit("")


def with_storable_texts(query: QueryDict) -> QueryDict:
    """Return a query in which nothing is what no database takes."""
    storable = bounds.with_storable_text
    pairs = [(storable(name), storable(value)) for name, values in query.lists() for value in values]
    return QueryDict(urlencode(pairs))


def find_browser(request: HttpRequest, username: str) -> str | None:
    """Return the id of the browser if this person has signed in with it in the last year.

    Wrong passwords from elsewhere do not lock them out: a browser that is known has a count of failed sign-ins of its
    own. Its signed cookie names the person and the browser, and signs nobody in.
    """
    try:
        name, browser = signing.loads(request.COOKIES.get(_COOKIE, ""), salt=_SALT, max_age=_MAX_AGE_S)
    except (signing.BadSignature, TypeError, ValueError):
        return None
    return str(browser) if name == username else None


class KnownBrowserMiddleware:
    """Gives the browser of a signed-in person its cookie, with the first page that they see."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, and add the cookie where it is missing."""
        response = self._get_response(request)
        actor = getattr(request, "actor", None)
        has_session = settings.SESSION_COOKIE_NAME in request.COOKIES
        if actor is not None and has_session and find_browser(request, actor.name) is None:
            response.set_cookie(
                _COOKIE,
                signing.dumps([actor.name, get_random_string(22)], salt=_SALT),
                max_age=_MAX_AGE_S,
                secure=settings.SESSION_COOKIE_SECURE,
                httponly=True,
                samesite="Lax",
            )
        return response
