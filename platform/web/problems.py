"""From anticipated errors to HTTP: the status of each kind, and the body for programs (RFC 9457 problem details)."""

from http import HTTPStatus

from asgiref.typing import ASGISendCallable
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpResponse, JsonResponse

from core.errors import ErrorKind, PlatformError
from core.outages import find_full

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


def problem_of_request(error: Exception) -> HttpResponse:
    """Return the answer to a program whose request Django refused to read."""
    if isinstance(error, RequestDataTooBig):
        title = f"The body is larger than {settings.DATA_UPLOAD_MAX_MEMORY_SIZE} bytes."
        return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "core.body_too_large", title, "Send it in parts.", {})
    title = f"The request cannot be read: {error}" if str(error) else "The request cannot be read."
    return problem(HTTPStatus.BAD_REQUEST, "core.malformed_request", title, "", {})


def problem_of_fault() -> HttpResponse:
    """Return the answer to a program for what nobody anticipated."""
    title = "Internal error. It has been logged."
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "core.internal", title, "", {})


def problem(status: int, code: str, title: str, hint: str, details: dict[str, object]) -> HttpResponse:
    """Return an answer in the one form in which programs are told of failure."""
    body = {"status": int(status), "code": code, "title": title, "hint": hint, "details": details}
    response = JsonResponse(body, status=status, content_type="application/problem+json")
    if status == HTTPStatus.UNAUTHORIZED:
        response["WWW-Authenticate"] = "Bearer"
    return response


async def send_response(response: HttpResponse, send: ASGISendCallable, *, is_last: bool = False) -> None:
    """Send an answer before Django. After the last one its connection ends, and what else is on its way is not read."""
    headers = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    headers.append((b"content-length", str(len(response.content)).encode()))
    if is_last:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers, "trailers": False})
    await send({"type": "http.response.body", "body": response.content, "more_body": False})
