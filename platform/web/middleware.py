"""Who may see a page, and what they see when it fails."""

from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from itertools import chain
from urllib.parse import urlsplit

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import BadRequest, SuspiciousOperation
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.utils.deprecation import MiddlewareMixin
from django_htmx.http import HttpResponseClientRedirect

from accounts.errors import NotSignedIn
from accounts.selectors import actor_of
from core import bounds, callers
from core.bounds import OutOfBounds
from core.errors import PlatformError
from core.outages import find_outage
from web import error_pages
from web.problems import is_for_program, problem, problem_of


class StorableTextMiddleware(MiddlewareMixin):
    """Refuses a request whose address, cookies or form hold a text that no database takes."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        """Look at the address and the cookies."""
        texts = chain([request.path_info], request.COOKIES.values())
        return _refuse_unstorable(request, lambda: chain(texts, _texts_of(request.GET)))

    def process_view(
        self, request: HttpRequest, _view: Callable[..., HttpResponseBase], _args: object, _kwargs: object
    ) -> HttpResponse | None:
        """Look at the form. What programs send is looked at by its parser, or streamed."""
        if request.method != "POST" or is_for_program(request):
            return None
        return _refuse_unstorable(request, lambda: _texts_of(request.POST))


def _refuse_unstorable(request: HttpRequest, read: Callable[[], Iterable[str]]) -> HttpResponse | None:
    try:
        fault = next(filter(None, map(bounds.text_fault, read())), "")
    except (BadRequest, SuspiciousOperation) as error:
        return error_pages.bad_request(request, error)
    return (
        error_pages.refuse(request, OutOfBounds(f"A text of the request cannot be stored. {fault}")) if fault else None
    )


def _texts_of(query: QueryDict) -> Iterator[str]:
    return (text for name, values in query.lists() for text in (name, *values))


class PlatformErrorMiddleware(MiddlewareMixin):
    """Lets only signed-in people reach pages, and turns anticipated errors into calm ones.

    A view that anyone may reach carries Django's `login_not_required`.
    """

    def process_view(
        self, request: HttpRequest, view: Callable[..., HttpResponseBase], _args: object, _kwargs: object
    ) -> HttpResponse | None:
        """Note the actor on the request, or send the person to the sign-in page."""
        if is_for_program(request):
            return None
        if request.user.is_authenticated:
            request.actor = actor_of(request.user)  # type: ignore[attr-defined]
            return None
        return _to_sign_in(request) if getattr(view, "login_required", True) else None

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Answer with an error page; let the unexpected pass, to be logged once."""
        known = error if isinstance(error, PlatformError) else find_outage(error)
        if known is None:
            return None
        if is_for_program(request):
            return problem_of(known)
        return _to_sign_in(request) if isinstance(known, NotSignedIn) else error_pages.show(request, known)

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Tell that an address does not know the method of a request in the form of all other failures."""
        _tell_caller(request)
        if response.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
            return response
        allowed = response.headers["Allow"]
        if not is_for_program(request):
            return error_pages.method_not_allowed(request, allowed)
        answer = problem(
            HTTPStatus.METHOD_NOT_ALLOWED, "core.method_not_allowed", f"This address takes {allowed} only.", "", {}
        )
        answer["Allow"] = allowed
        return answer


def _tell_caller(request: HttpRequest) -> None:
    """Tell who sent a request, when its credential was checked: of pages the actor, of the API what it let in."""
    if (actor := getattr(request, "actor", None)) is not None:
        callers.tell(f"{'token' if 'Authorization' in request.headers else 'session'} of {actor.user_id}")
    elif hasattr(request, "auth"):
        callers.tell("")


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    is_part = bool(getattr(request, "htmx", False))
    is_page = request.method == "GET" and not is_part
    answer = redirect_to_login(request.get_full_path() if is_page else _page_of(request))
    return HttpResponseClientRedirect(answer.url) if is_part else answer


def _page_of(request: HttpRequest) -> str:
    """Return the address of the page that a form or a part stands on, as the browser tells it; else the overview's."""
    page = urlsplit(request.headers.get("Referer", ""))
    return page._replace(scheme="", netloc="").geturl() if page.netloc == request.get_host() else "/"
