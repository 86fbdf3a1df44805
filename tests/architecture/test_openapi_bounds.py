"""Every value that a program may send has bounds in the description of the API: a length, a least and a most."""

from collections.abc import Iterator

from config.api import api

SCHEMA = api.get_openapi_schema(path_prefix="/api/v1/")
METHODS = {"get", "put", "post", "patch", "delete"}


def find_unbounded(schema: dict, where: str, seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the parts of a schema that a value of any size would fit."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in seen:
            yield from find_unbounded(SCHEMA["components"]["schemas"][name], f"{where}:{name}", seen | {name})
        return
    if "enum" not in schema and "const" not in schema:
        kind = schema.get("type")
        if any(not wanted & schema.keys() for wanted in BOUNDS.get(kind, ())) and not is_fixed(schema):
            yield f"{where}: {kind} of any size"
    for part, place in parts_of(schema):
        yield from find_unbounded(part, f"{where}{place}", seen)


BOUNDS = {
    "string": [{"maxLength", "pattern", "format"}],
    "integer": [{"minimum", "exclusiveMinimum"}, {"maximum"}],
    "number": [{"minimum", "exclusiveMinimum"}, {"maximum"}],
    "array": [{"maxItems"}],
    "object": [{"maxProperties"}],
}


def is_fixed(schema: dict) -> bool:
    """Whether a mapping has named keys only."""
    return schema.get("type") == "object" and not isinstance(schema.get("additionalProperties"), dict)


def parts_of(schema: dict) -> Iterator[tuple[dict, str]]:
    for choice in ("anyOf", "oneOf", "allOf", "prefixItems"):
        yield from ((part, f".{number}") for number, part in enumerate(schema.get(choice, [])))
    yield from ((part, f".{name}") for name, part in schema.get("properties", {}).items())
    for inner in ("items", "additionalProperties"):
        if isinstance(part := schema.get(inner), dict):
            yield part, "[]"


def test_every_body_has_bounds():
    unbounded = [
        fault
        for path, methods in SCHEMA["paths"].items()
        for method, operation in methods.items()
        if method in METHODS
        for content in operation.get("requestBody", {}).get("content", {}).values()
        for fault in find_unbounded(content["schema"], f"{method.upper()} {path}")
    ]

    assert not unbounded, "\n".join(unbounded)


def test_every_number_of_an_address_has_bounds():
    """Texts of an address end with the address, of which a server reads 64 KiB."""
    unbounded = [
        fault
        for path, methods in SCHEMA["paths"].items()
        for method, operation in methods.items()
        for parameter in operation.get("parameters", [])
        for fault in find_unbounded(parameter["schema"], f"{method.upper()} {path} {parameter['name']}")
        if not fault.endswith("string of any size")
    ]

    assert not unbounded, "\n".join(unbounded)


def find_open(schema: dict, where: str, seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the parts of a schema that a key of any name would fit, unless they are mappings by design."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in seen:
            yield from find_open(SCHEMA["components"]["schemas"][name], f"{where}:{name}", seen | {name})
        return
    if "properties" in schema and schema.get("additionalProperties") is not False:
        yield where
    for part, place in parts_of(schema):
        yield from find_open(part, f"{where}{place}", seen)


def test_no_body_takes_a_key_that_it_does_not_know():
    is_open = [
        fault
        for path, methods in SCHEMA["paths"].items()
        for method, operation in methods.items()
        if method in METHODS
        for kind, content in operation.get("requestBody", {}).get("content", {}).items()
        if kind == "application/json"
        for fault in find_open(content["schema"], f"{method.upper()} {path}")
    ]

    assert not is_open, "\n".join(is_open)
