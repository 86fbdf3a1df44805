"""Calm pages for what went wrong: what happened, why, what to do, and the code to quote."""

import sys
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from accounts.errors import ProjectDeleted, ProjectNotFound
from accounts.selectors import actor_of, get_project
from accounts.web.requests import is_for_program
from core.errors import ErrorKind, InvalidInput, NotFound, PlatformError
from core.outages import DatabaseUnavailable, MigrationsPending, find_full, find_outage
from web.problems import STATUS, problem_of, problem_of_fault, problem_of_request
from web.refused_forms import field_of

_TITLES = {
    ErrorKind.INVALID: "This cannot be done as asked",
    ErrorKind.UNAUTHENTICATED: "You are not signed in",
    ErrorKind.DENIED: "You may not do this",
    ErrorKind.NOT_FOUND: "Not found",
    ErrorKind.CONFLICT: "This does not fit what is there",
    ErrorKind.QUOTA: "No capacity left for this",
    ErrorKind.THROTTLED: "Too many requests",
    ErrorKind.UNAVAILABLE: "Not reachable at the moment",
    ErrorKind.STORAGE_FULL: "The disk is full",
}


class PageNotFound(NotFound):
    """No page has this address."""

    code = "web.page_not_found"
    hint = "Check the address, or start from the overview."


class NoPage(InvalidInput):
    """An address that only forms and buttons send to was opened as a page."""

    code = "web.no_page"
    hint = "Go back to the page with the form, or start from the overview."


class RouteNotFound(NotFound):
    """No route of the API has this address."""

    code = "web.route_not_found"
    hint = "The routes are listed at /api/v1/docs."


class UnreadableRequest(InvalidInput):
    """A request is too large, or holds what cannot be read."""

    code = "web.unreadable_request"
    hint = "Go back, reload the page and try again with less."


class RequestRefused(PlatformError):
    """A form was sent from somewhere else, or from a page that was open for too long."""

    code = "web.request_refused"
    kind = ErrorKind.DENIED
    hint = "Go back, reload the page and try again."


def show(request: HttpRequest, error: PlatformError) -> HttpResponse:
    """Answer with the error: as a page, as a part of the page that htmx asked from, or to a script.

    The part is the reason in the form that was sent by htmx in place of the browser, else a note in the corner.
    """
    if request.get_preferred_type(["text/html", "application/json"]) == "application/json":
        return problem_of(error)
    error = find_full(error) or error
    if error.kind == ErrorKind.NOT_FOUND:
        error = _find_deletion(request) or error
    status = STATUS[error.kind]
    context = {"error": error, "title": _TITLES[error.kind], "may_return": error.kind == ErrorKind.UNAVAILABLE}
    stands_alone = isinstance(error, DatabaseUnavailable | MigrationsPending)  # not even who asks can be read
    if not getattr(request, "htmx", False):
        return (
            refuse(request, error, status)
            if stands_alone
            else render(request, "web/error.html", context, status=status)
        )
    is_form = "HX-Boosted" in request.headers
    context["field"] = field_of(error)
    part = "web/parts/refusal.html" if is_form else "web/parts/error_note.html"
    response = render(None if stands_alone else request, part, context, status=status)
    response["HX-Retarget"] = "this" if is_form else "#toasts"
    response["HX-Reswap"] = "afterbegin show:none" if is_form else "innerHTML"
    return response


def _find_deletion(request: HttpRequest) -> PlatformError | None:
    """Return that the project in an address is deleted, to those who may restore it."""
    actor = getattr(request, "actor", None)
    kwargs = request.resolver_match.kwargs if request.resolver_match else {}
    name = kwargs.get("project") or request.GET.get("project") or kwargs.get("name")
    try:
        if actor is not None and name:
            get_project(actor=actor, name=name)
    except ProjectDeleted as error:
        return error
    except ProjectNotFound:
        pass
    return None


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 (Django's signature)
    """Answer to an address that no route matches. No middleware has noted the actor, because there is no view."""
    if is_for_program(request):
        return problem_of(RouteNotFound("There is no route at this address."))
    if request.user.is_authenticated:
        request.actor = actor_of(request.user)  # type: ignore[attr-defined]
    return show(request, PageNotFound("There is no page at this address."))


def method_not_allowed(request: HttpRequest, allowed: str) -> HttpResponse:
    """Answer to an address that does not take the method of the request."""
    answer = show(request, NoPage("This address takes what a form or a button sends. It is no page."))
    answer.status_code = HTTPStatus.METHOD_NOT_ALLOWED
    answer["Allow"] = allowed
    return answer


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer to a request that Django refuses to read."""
    answer = problem_of_request(exception)
    if is_for_program(request):
        return answer
    return refuse(request, UnreadableRequest("This request is too large or cannot be read."), answer.status_code)


def refuse(request: HttpRequest, error: PlatformError, status: int = HTTPStatus.BAD_REQUEST) -> HttpResponse:
    """Answer to a request of which nothing more may be read: not its form, and not its session."""
    if is_for_program(request):
        return problem_of(error)
    title = "This cannot be read" if error.kind == ErrorKind.INVALID else _TITLES[error.kind]
    context = {
        "request": request,
        "error": error,
        "title": title,
        "may_return": error.kind == ErrorKind.UNAVAILABLE,
    }
    return render(None, "web/refused.html", context, status=status)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer to a form without a valid token."""
    return show(
        request, RequestRefused(f"This form did not come from one of our pages, or is too old. {reason}".strip())
    )


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer to what nobody anticipated. The page stands alone, because anything else may be what broke.

    An outage comes here when a middleware noticed it, such as the one that keeps sessions.
    """
    error = sys.exc_info()[1]
    if error is not None and (outage := find_outage(error)) is not None:
        return problem_of(outage) if is_for_program(request) else show(request, outage)
    if is_for_program(request):
        return problem_of_fault()
    return render(request, "web/broken.html", status=HTTPStatus.INTERNAL_SERVER_ERROR, context={})
