"""From anticipated errors to HTTP answers: the only such place. Bodies are RFC 9457 problem details."""

import structlog
from django.http import HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI
from ninja.errors import ValidationError

from core.errors import ErrorKind, PlatformError

log = structlog.get_logger(__name__)

STATUS = {
    ErrorKind.INVALID: 400,
    ErrorKind.UNAUTHENTICATED: 401,
    ErrorKind.DENIED: 403,
    ErrorKind.NOT_FOUND: 404,
    ErrorKind.CONFLICT: 409,
    ErrorKind.QUOTA: 422,
    ErrorKind.THROTTLED: 429,
    ErrorKind.UNAVAILABLE: 503,
}


def problem(error: PlatformError) -> HttpResponse:
    """Return the HTTP answer for an anticipated error."""
    return _answer(STATUS[error.kind], error.code, error.message, error.hint, dict(error.details))


def install(api: NinjaAPI) -> None:
    """Teach an API to answer every error in the one form."""

    @api.exception_handler(PlatformError)
    def anticipated(_request: HttpRequest, error: PlatformError) -> HttpResponse:
        return problem(error)

    @api.exception_handler(ValidationError)
    def malformed(_request: HttpRequest, error: ValidationError) -> HttpResponse:
        faults = [{"where": ".".join(str(part) for part in item["loc"]), "what": item["msg"]} for item in error.errors]
        text = "; ".join(f"{fault['where']}: {fault['what']}" for fault in faults)
        return _answer(400, "core.malformed_request", f"The request is malformed: {text}", "", {"faults": faults})

    @api.exception_handler(Exception)
    def unanticipated(request: HttpRequest, error: Exception) -> HttpResponse:
        log.error("request.failed", path=request.path, exc_info=error)
        return _answer(500, "core.internal", "Something broke inside Nearline. It has been logged.", "", {})


def _answer(status: int, code: str, message: str, hint: str, details: dict[str, object]) -> HttpResponse:
    body = {"status": status, "code": code, "title": message, "hint": hint, "details": details}
    response = JsonResponse(body, status=status, content_type="application/problem+json")
    if status == 401:  # noqa: PLR2004
        response["WWW-Authenticate"] = "Bearer"
    return response
