"""How the API answers when something fails: always in the one form of `web.problems`, in plain words."""

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from django.core.exceptions import BadRequest, SuspiciousOperation
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError

from core.errors import PlatformError
from core.outages import find_outage
from core.units import in_numbers
from web.problems import problem, problem_of, problem_of_fault, problem_of_request

log = structlog.get_logger(__name__)

_NUMBER, _WHOLE, _TEXT = "has to be a number", "has to be a whole number", "has to be a text"
_OBJECT, _LIST, _MOMENT = "has to be an object", "has to be a list", "has to be a moment like 2026-01-31T12:00:00Z"
_WORDS: Mapping[str, str] = {
    "missing": "is missing",
    "extra_forbidden": "is not known",
    "greater_than_equal": "has to be at least {ge}",
    "greater_than": "has to be more than {gt}",
    "less_than_equal": "has to be at most {le}",
    "less_than": "has to be less than {lt}",
    "string_too_short": "has fewer than {min_length} characters",
    "string_too_long": "has more than {max_length} characters",
    "too_short": "has fewer than {min_length} entries",
    "too_long": "has more than {max_length} entries",
    "string_pattern_mismatch": "has to match {pattern}",
    "literal_error": "has to be {expected}",
    "enum": "has to be {expected}",
    "bool_type": "has to be true or false",
    "bool_parsing": "has to be true or false",
    "string_type": _TEXT,
    "string_unicode": _TEXT,
    "list_type": _LIST,
    "dict_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    **dict.fromkeys(("int_type", "int_parsing", "int_parsing_size", "int_from_float"), _WHOLE),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number", "decimal_type", "decimal_parsing"), _NUMBER),
    **dict.fromkeys(("datetime_type", "datetime_parsing", "datetime_from_date_parsing", "timezone_aware"), _MOMENT),
}
"""By the type of Pydantic's error; what is in braces is in its context."""


def install(api: NinjaAPI) -> None:
    """Teach an API to answer every error in the one form."""

    @api.exception_handler(PlatformError)
    def anticipated(_request: HttpRequest, error: PlatformError) -> HttpResponse:
        return problem_of(error)

    @api.exception_handler(ValidationError)
    def malformed(_request: HttpRequest, error: ValidationError) -> HttpResponse:
        faults = [
            {"where": _where(item["loc"]), "what": _describe_fault(item["type"], item["msg"], item.get("ctx", {}))}
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


def _describe_fault(kind: str, message: str, context: Mapping[str, Any]) -> str:
    """Return what is wrong with a field, to stand after its name. What has no words here keeps those of Pydantic."""
    words = _WORDS.get(kind)
    if context.get("min_length") == 1:
        return "is empty"
    if words is None:
        return f"is refused: {message.removeprefix('Value error, ').removesuffix('.')}"
    return words.format(**in_numbers(context))
