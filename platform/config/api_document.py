"""What the description of the API says beside its routes: who may call, how failures look, and what each word means."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, TypeVar

from django.conf import settings

from config.api_words import PARAMETERS, WORDS

Node = dict[str, Any]
S = TypeVar("S", bound=Node)

_PROBLEM: Node = {
    "title": "Problem",
    "description": "Why a request failed (RFC 9457). Programs may rely on `code`; docs/reference/errors.md lists all.",
    "type": "object",
    "properties": {
        "status": {"type": "integer", "description": "The status of the answer."},
        "code": {"type": "string", "description": "What failed, as a word that stays."},
        "title": {"type": "string", "description": "What happened, and why, in one sentence."},
        "hint": {"type": "string", "description": "What to do; may be empty."},
        "details": {"type": "object", "description": "Values that a program needs to react."},
    },
    "required": ["status", "code", "title", "hint", "details"],
}
_ALWAYS = {
    HTTPStatus.BAD_REQUEST: "The request is malformed, or a value lies outside its bounds.",
    HTTPStatus.UNAUTHORIZED: "Nobody is signed in, or the token is unknown, expired or revoked.",
    HTTPStatus.FORBIDDEN: "The caller may not do this.",
    HTTPStatus.NOT_FOUND: "The thing does not exist, or the caller may not know of it.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests with a worthless token.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "Internal error; it has been logged.",
    HTTPStatus.SERVICE_UNAVAILABLE: "A system that Nearline depends on is not reachable.",
}
_WRITES = {
    HTTPStatus.CONFLICT: "The thing is not in the state that the caller assumed.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is larger than a request may be.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "No capacity left for this within a quota.",
    HTTPStatus.INSUFFICIENT_STORAGE: "The disk of the server is full.",
}
_READS = {HTTPStatus.CONFLICT: "The thing is not in the state that the caller assumed."}
_RANGES = {HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: "No byte of the range exists."}
_METHODS = {"get", "put", "post", "patch", "delete"}


def complete(schema: S) -> S:
    """Add to a description what all routes share, and return it."""
    components = schema["components"]
    components["schemas"]["Problem"] = _PROBLEM
    components["securitySchemes"] = {
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "A personal access token, made on the settings page.",
        },
        "password": {
            "type": "http",
            "scheme": "basic",
            "description": "The name and the password of a person, taken only to make a token.",
        },
        "session": {
            "type": "apiKey",
            "in": "cookie",
            "name": settings.SESSION_COOKIE_NAME,
            "description": "The session of a page. Writes also need the header X-CSRFToken.",
        },
    }
    schema["security"] = [{"token": []}, {"session": []}]
    for method, operation in _operations(schema):
        _summarize(operation)
        _name_bytes(operation)
        _add_failures(method, operation)
        for parameter in operation.get("parameters", []):
            _describe(parameter, parameter["name"], PARAMETERS | WORDS)
    for node in components["schemas"].values():
        for name, part in node.get("properties", {}).items():
            _describe(part, name, WORDS)
    return schema


def _operations(schema: Node) -> Iterator[tuple[str, Node]]:
    for methods in schema["paths"].values():
        yield from ((method, operation) for method, operation in methods.items() if method in _METHODS)


def _summarize(operation: Node) -> None:
    operation["summary"] = operation["description"].partition("\n")[0].partition(". ")[0].rstrip(".")


def _name_bytes(operation: Node) -> None:
    """Say of answers that are files that they are of any type; ninja calls all answers JSON."""
    for answer in operation["responses"].values():
        if answer.get("content", {}).get("application/json", {}).get("schema", {}).get("format") == "binary":
            answer["content"] = {"*/*": {"schema": {}}}


def _add_failures(method: str, operation: Node) -> None:
    failures = _ALWAYS | (_READS if method == "get" else _WRITES)
    if HTTPStatus.PARTIAL_CONTENT in map(int, operation["responses"]):
        failures |= _RANGES
    for status, meaning in failures.items():
        content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
        operation["responses"][int(status)] = {"description": meaning, "content": content}


def _describe(part: Node, name: str, words: dict[str, str]) -> None:
    if "description" not in part and name in words:
        part["description"] = words[name]
