"""How the API answers when something fails: always in the one form of `web.problems`."""

from collections.abc import Sequence

import structlog
from django.core.exceptions import BadRequest, SuspiciousOperation
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError

from config.api_faults import describe_fault
from core.errors import PlatformError
from core.outages import find_outage
from web.problems import problem, problem_of, problem_of_fault, problem_of_request

log = structlog.get_logger(__name__)


def install(api: NinjaAPI) -> None:
    """Teach an API to answer every error in the one form."""

    @api.exception_handler(PlatformError)
    def anticipated(_request: HttpRequest, error: PlatformError) -> HttpResponse:
        return problem_of(error)

    @api.exception_handler(ValidationError)
    def malformed(_request: HttpRequest, error: ValidationError) -> HttpResponse:
        faults = [
            {"where": _where(item["loc"]), "what": describe_fault(item["type"], item["msg"], item.get("ctx", {}))}
            for item in error.errors
        ]
        text = "; ".join(f"{fault['where']} {fault['what']}" for fault in faults)
        return problem(400, "core.malformed_request", f"The request is malformed: {text}.", "", {"faults": faults})

    @api.exception_handler(SuspiciousOperation)
    @api.exception_handler(BadRequest)
    @api.exception_handler(UnreadablePostError)
    def refused(_request: HttpRequest, error: Exception) -> HttpResponse:
        return problem_of_request(error)

    @api.exception_handler(HttpError)
    def unreadable(_request: HttpRequest, error: HttpError) -> HttpResponse:
        # The parser's own error is the cause of what ninja raises.
        if isinstance(error.__cause__, PlatformError):
            return problem_of(error.__cause__)
        return problem(error.status_code, "core.malformed_request", str(error), "", {})

    @api.exception_handler(Exception)
    def unanticipated(request: HttpRequest, error: Exception) -> HttpResponse:
        if (outage := find_outage(error)) is not None:
            return problem_of(outage)
        log.error("request.failed", path=request.path, exc_info=error)
        return problem_of_fault()


def _where(place: Sequence[str | int]) -> str:
    """Return the path of a field as its sender knows it: what is in the body by its name there.

    The framework names it after the body and the handler's argument, `("body", "body", "replicas")`.
    """
    own = place[2:] or place[:1] if place[0] == "body" else place
    return ".".join(map(str, own))
