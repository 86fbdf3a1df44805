"""What every request passes on its way: static files, compression, storable texts, who may see it, how it fails."""

from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import BadRequest, SuspiciousOperation
from django.core.handlers.asgi import ASGIRequest
from django.db import DataError
from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.middleware.gzip import GZipMiddleware
from django.utils.deprecation import MiddlewareMixin
from django_htmx.http import HttpResponseClientRedirect
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

from accounts.errors import NotSignedIn
from accounts.permissions import tell_caller
from accounts.selectors import actor_of
from accounts.web.requests import is_for_program, page_before, with_storable_texts
from core import bounds
from core.bounds import OutOfBounds
from core.errors import PlatformError
from core.outages import find_outage
from core.streaming import asynchronously
from web import error_pages
from web.problems import problem, problem_of

_CHUNK_BYTES = 1 << 18
_COMPRESSED = ("text/html", "application/json")


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc]  # whitenoise has no types
    """Answers for static files. WhiteNoise alone makes Django read a file whole and warn about it under ASGI."""

    @staticmethod
    def serve(static_file: StaticFile, request: HttpRequest) -> FileResponse:
        """Return the answer to a request for a file."""
        response: FileResponse = WhiteNoiseMiddleware.serve(static_file, request)
        response.block_size = _CHUNK_BYTES
        if isinstance(request, ASGIRequest):
            response.streaming_content = asynchronously(iter(response))
        return response


class CompressPages(GZipMiddleware):
    """Compresses pages, parts of pages and JSON that GET answers with, where the browser takes gzip.

    Streams (live news, downloads) pass as they are: they must not be held up.

    An attacker who can add to a page and see its length could guess a secret in it (BREACH). So answers to a POST,
    which may show a secret once, are left alone, Django masks CSRF tokens anew in each page, and each compressed
    answer gets a random length.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Compress the response if it may be."""
        if (
            request.method != "GET"
            or response.streaming
            or not response.headers["Content-Type"].startswith(_COMPRESSED)
        ):
            return response
        return super().process_response(request, response)


class StorableTextMiddleware(MiddlewareMixin):
    """Lets no text that no database takes reach one.

    A path and cookies with one are refused. What a page is searched for has a replacement in its place, which nothing
    has. A form says itself at which field it is, as of all else that is wrong; where its view knows no fields, the row
    that would store it refuses it, or at last the database.
    """

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        """Look at the address and the cookies. What programs send else is looked at by its parser, or streamed."""
        try:
            asked = list(_texts_of(request.GET))
        except (BadRequest, SuspiciousOperation) as error:
            return error_pages.bad_request(request, error)
        is_asked = not is_for_program(request) and _find_fault(asked)
        refused = [request.path_info, *request.COOKIES.values(), *([] if is_asked else asked)]
        if fault := _find_fault(refused):
            return error_pages.refuse(request, OutOfBounds(f"A text of the request cannot be stored. {fault}"))
        if is_asked:
            request.GET = with_storable_texts(request.GET)  # type: ignore[assignment]  # it is immutable too
        return None

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Answer for a database that was asked for a text of a form, or was to store it."""
        is_form = isinstance(error, DataError) and request.method == "POST" and not is_for_program(request)
        if not is_form or not (fault := _find_fault(_texts_of(request.POST))):
            return None
        return error_pages.show(request, OutOfBounds(f"A text of the form cannot be stored. {fault}"))


def _find_fault(texts: Iterable[str]) -> str:
    return next(filter(None, map(bounds.text_fault, texts)), "")


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
        """Tell that an address does not know the method of a request in the form of all other failures.

        A form that htmx sent in place of the browser leads the browser on, as it does without script.
        """
        _tell_caller(request)
        if isinstance(response, HttpResponseRedirect) and "HX-Boosted" in request.headers:
            return HttpResponseClientRedirect(response.url)
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
        tell_caller(f"{'token' if 'Authorization' in request.headers else 'session'} of {actor.user_id}")
    elif hasattr(request, "auth"):
        tell_caller("")


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    is_part = bool(getattr(request, "htmx", False))
    is_page = request.method == "GET" and not is_part
    answer = redirect_to_login(request.get_full_path() if is_page else _path_of_page(request))
    return HttpResponseClientRedirect(answer.url) if is_part else answer


def _path_of_page(request: HttpRequest) -> str:
    """Return the path of the page that a form or a part stands on; else the overview's."""
    return page_before(request)._replace(scheme="", netloc="").geturl() or "/"
