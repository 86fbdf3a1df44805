"""The HTTP API as described in docs/reference/openapi.json.

A change of it is a change for every program that calls us: refresh the snapshot with `make docs`, and read its diff.
"""

import json
import re
from collections import Counter

import pytest
from ninja import Schema
from openapi_spec_validator import OpenAPIV31SpecValidator

from config.api import api
from config.api_words import PARAMETERS, WORDS
from docs import generate

SNAPSHOT = json.loads((generate.REFERENCE / "openapi.json").read_text())
METHODS = {"get", "put", "post", "patch", "delete"}


def operations(schema: dict) -> dict[str, dict]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
        if method in METHODS
    }


def test_the_snapshot_is_the_api():
    now = json.loads(generate.openapi())

    assert sorted(operations(SNAPSHOT)) == sorted(operations(now)), "run `make docs` and read the diff"
    assert now == SNAPSHOT, "run `make docs` and read the diff"


@pytest.mark.parametrize("route", sorted(operations(SNAPSHOT)))
def test_every_route_has_a_name_of_its_own_and_says_what_it_does(route):
    operation = operations(SNAPSHOT)[route]

    assert operation["operationId"].startswith(
        ("accounts_", "datasets_", "cache_", "compute_", "scheduler_", "flows_", "experiments_")
    )
    assert operation["description"]
    names = [other["operationId"] for other in operations(SNAPSHOT).values()]
    assert names.count(operation["operationId"]) == 1


def test_the_description_is_made_once():
    assert api.get_openapi_schema() is api.get_openapi_schema(path_prefix="/api/v1/")


def test_the_description_is_valid():
    OpenAPIV31SpecValidator(SNAPSHOT).validate()


def test_every_property_and_parameter_says_what_it_means():
    silent = [
        f"{name}.{word}"
        for name, schema in SNAPSHOT["components"]["schemas"].items()
        for word, part in schema.get("properties", {}).items()
        if not part.get("description")
    ]
    silent += [
        f"{route} {parameter['name']}"
        for route, operation in operations(SNAPSHOT).items()
        for parameter in operation.get("parameters", [])
        if not parameter.get("description")
    ]

    assert silent == [], "describe it beside its schema, or in config/api_words.py"


def test_no_word_is_explained_that_nothing_uses():
    properties = {
        word for schema in SNAPSHOT["components"]["schemas"].values() for word in schema.get("properties", {})
    }
    parameters = {
        parameter["name"]
        for operation in operations(SNAPSHOT).values()
        for parameter in operation.get("parameters", [])
    }

    assert sorted(WORDS.keys() - properties - parameters) == []
    assert sorted(PARAMETERS.keys() - parameters) == []


def test_every_route_tells_how_it_fails_and_who_may_call_it():
    for operation in operations(SNAPSHOT).values():
        for status in ("400", "401", "403", "404"):
            content = operation["responses"][status]["content"]
            assert content == {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}

    assert SNAPSHOT["security"] == [{"token": []}, {"session": []}]
    assert set(SNAPSHOT["components"]["securitySchemes"]) == {"token", "session", "password"}
    by_password = {name for name, operation in operations(SNAPSHOT).items() if "security" in operation}
    assert by_password == {"POST /api/v1/tokens"}


def test_a_summary_is_a_sentence_of_its_own():
    summaries = [operation["summary"] for operation in operations(SNAPSHOT).values()]

    assert [text for text in summaries if " " not in text or text.istitle() or text.endswith(".")] == []


def test_the_api_can_be_browsed_with_our_own_files_only(client, db):
    answer = client.get("/api/v1/docs")

    assert answer.status_code == 200
    addresses = re.findall(r'(?:src|href)="([^"]+)"', answer.content.decode())
    assert addresses
    assert [address for address in addresses if not address.startswith("/static/ninja/")] == []
    assert "<script>" not in answer.content.decode()
    assert (
        "script-src" in answer["Content-Security-Policy"] or "default-src 'self'" in answer["Content-Security-Policy"]
    )


def test_no_two_schemas_have_the_same_name():
    """The description names schemas by their class alone: of two with one name, one would describe the other."""
    names = Counter(schema.__name__ for schema in descendants(Schema) if ".api." in schema.__module__)

    assert [name for name, count in names.items() if count > 1] == []


def descendants(parent: type) -> list[type]:
    return [heir for child in parent.__subclasses__() for heir in (child, *descendants(child))]


def test_every_list_answers_items_and_a_cursor():
    """Except where one asks for what came `after` the last that is known."""
    schemas = SNAPSHOT["components"]["schemas"]
    wrong = []
    for route, operation in operations(SNAPSHOT).items():
        content = operation["responses"].get("200", {}).get("content", {}).get("application/json", {})
        reference = content.get("schema", {}).get("$ref", "")
        properties = schemas.get(reference.rpartition("/")[2], {}).get("properties", {})
        is_followed = any(parameter["name"] == "after" for parameter in operation.get("parameters", []))
        if route.startswith("GET ") and "items" in properties and not is_followed and "next_cursor" not in properties:
            wrong.append(route)

    assert wrong == []


def test_the_api_is_described_at_its_address(client, db):
    answer = client.get("/api/v1/openapi.json")

    assert answer.status_code == 200
    assert answer.json()["info"]["title"] == api.title
