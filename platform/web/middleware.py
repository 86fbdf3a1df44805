"""Who may see a page, and what they see when it fails."""

from collections.abc import Callable

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import resolve_url
from django.utils.deprecation import MiddlewareMixin
from django_htmx.http import HttpResponseClientRedirect

from accounts.errors import NotSignedIn
from accounts.selectors import actor_of
from core.errors import PlatformError
from core.storage import find_full
from web import error_pages, problems

OWN_DOORS = frozenset({"api", "store"})
"""Namespaces of routes that are no pages: programs call them, and they check their callers themselves."""


class PlatformErrorMiddleware(MiddlewareMixin):
    """Lets only signed-in people reach pages, and turns anticipated errors into calm ones.

    A view that anyone may reach carries Django's `login_not_required`.
    """

    def process_view(
        self, request: HttpRequest, view: Callable[..., HttpResponseBase], _args: object, _kwargs: object
    ) -> HttpResponse | None:
        """Note the actor on the request, or send the person to the sign-in page."""
        if self._is_own_door(request):
            return None
        if request.user.is_authenticated:
            request.actor = actor_of(request.user)  # type: ignore[attr-defined]
            return None
        return _to_sign_in(request) if getattr(view, "login_required", True) else None

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Answer with an error page; let the unexpected pass, to be logged once."""
        known = error if isinstance(error, PlatformError) else find_full(error)
        if known is None:
            return None
        if self._is_own_door(request):
            return problems.problem_of(known)
        return _to_sign_in(request) if isinstance(known, NotSignedIn) else error_pages.show(request, known)

    @staticmethod
    def _is_own_door(request: HttpRequest) -> bool:
        match = request.resolver_match
        return match is not None and not OWN_DOORS.isdisjoint(match.namespaces)


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    if getattr(request, "htmx", False):
        return HttpResponseClientRedirect(resolve_url(settings.LOGIN_URL))
    return redirect_to_login(request.get_full_path() if request.method == "GET" else "/")
