"""Browsers in which a person has signed in before: wrong passwords from elsewhere do not lock them out.

A signed cookie names the person and the browser. It signs nobody in; it only gives the browser a count of failed
sign-ins of its own.
"""

from collections.abc import Callable

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponseBase
from django.utils.crypto import get_random_string

_COOKIE = "known_browser"
_SALT = "accounts.known_browser"
_MAX_AGE_S = 365 * 24 * 3600


def find_browser(request: HttpRequest, username: str) -> str | None:
    """Return the id of the browser if this person has signed in with it in the last year."""
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
