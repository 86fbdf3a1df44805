"""From anticipated errors to HTTP: the status of each kind, and the body for programs (RFC 9457 problem details)."""

from http import HTTPStatus

from django.http import HttpResponse, JsonResponse

from core.errors import ErrorKind, PlatformError
from core.storage import find_full

STATUS = {
    ErrorKind.INVALID: HTTPStatus.BAD_REQUEST,
    ErrorKind.UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    ErrorKind.DENIED: HTTPStatus.FORBIDDEN,
    ErrorKind.NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorKind.CONFLICT: HTTPStatus.CONFLICT,
    ErrorKind.QUOTA: HTTPStatus.UNPROCESSABLE_ENTITY,
    ErrorKind.THROTTLED: HTTPStatus.TOO_MANY_REQUESTS,
    ErrorKind.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorKind.STORAGE_FULL: HTTPStatus.INSUFFICIENT_STORAGE,
}


def problem_of(error: PlatformError) -> HttpResponse:
    """Return the answer to a program for an anticipated error; a full disk behind it is what it is told."""
    error = find_full(error) or error
    return problem(STATUS[error.kind], error.code, error.message, error.hint, dict(error.details))


def problem(status: int, code: str, title: str, hint: str, details: dict[str, object]) -> HttpResponse:
    """Return an answer in the one form in which programs are told of failure."""
    body = {"status": int(status), "code": code, "title": title, "hint": hint, "details": details}
    response = JsonResponse(body, status=status, content_type="application/problem+json")
    if status == HTTPStatus.UNAUTHORIZED:
        response["WWW-Authenticate"] = "Bearer"
    return response
