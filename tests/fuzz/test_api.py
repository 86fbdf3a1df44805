"""Every route of the API, asked by everybody for what its description allows and for what it does not.

Nothing ends in a 5xx or a traceback, and every answer is one that the description names, of the shape that it gives.
"""

import json
import os
from collections.abc import Iterator
from functools import cache
from urllib.parse import quote, urlencode

import jsonschema_rs
import pytest
import schemathesis
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from config.api import api
from tests.architecture import routes
from tests.architecture.test_permission_matrix import API_ROOT, Route, fill_in
from tests.architecture.world import ROLES, World
from tests.fuzz.poison import POISON_JSON, POISON_TEXTS
from tests.fuzz.tally import Tally
from tests.transactions import undone


@schemathesis.serializer("application/gzip", "application/x-tar")
def as_it_is(_context, value: object) -> object:
    return value


DOCUMENT = json.loads(json.dumps(api.get_openapi_schema(path_prefix=f"{API_ROOT}/"), default=str))
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS = {f"{found.ok().method.upper()} {found.ok().path}": found.ok() for found in SCHEMA.get_all_operations()}
PARTS = 4
STEADY = settings(
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    max_examples=int(os.environ.get("NEARLINE_TEST_EXAMPLES", "6")),  # of each route
)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_route_breaks_and_every_answer_is_as_described(everything, tally, part):
    for name in sorted(OPERATIONS)[part::PARTS]:
        fuzz(everything, tally, name)

    assert not tally.faults, "\n".join(tally.faults)


def fuzz(everything: World, tally: Tally, name: str) -> None:
    """Ask one route as everybody, with its usual values, generated ones, and those that broke something once."""
    operation = OPERATIONS[name]
    route = Route(operation.method.upper(), operation.path.removeprefix(API_ROOT), {})
    usual_query = routes.queries(everything.values).get(route.name, "")
    usual_body = routes.bodies(everything.values).get(route.name)
    answers = validators_of(operation)

    @STEADY
    @given(case=operation.as_strategy(), data=st.data(), role=st.sampled_from(ROLES))
    def ask(case, data, role):
        asker = everything.askers[role]
        path = API_ROOT + fill_in(route, everything.values, asker)
        if data.draw(st.integers(0, 3)) == 0:
            path = quote(case.formatted_path, safe="/%") if "?" not in case.formatted_path else path
        query = usual_query
        if data.draw(st.booleans()):
            texts = {
                key: data.draw(st.sampled_from(POISON_TEXTS) | st.just(value))
                for key, value in (case.query or {}).items()
            }
            query = "&".join(filter(None, [urlencode(texts, doseq=True, errors="surrogatepass"), usual_query]))
        body = draw_body(data, usual_body, case.body)
        with undone():
            answer = Client(raise_request_exception=False).generic(
                route.method, f"{path}?{query}", body, content_type="application/json", headers=asker.headers
            )
            content = b"".join(answer.streaming_content) if answer.streaming else answer.content
        what = f"{route.method} {path}?{query} by {role} {body[:300]!r}"
        tally.note(answer.status_code, what)
        tally.faults += [f"{answer.status_code} {fault}: {what}" for fault in find_faults(answers, answer, content)]

    ask()


def draw_body(data, usual: object, generated: object) -> bytes:
    """Return the usual body, a generated one, the usual one with parts of that, or one with a poisonous value."""
    is_mapping = isinstance(usual, dict) and isinstance(generated, dict)
    kind = data.draw(st.sampled_from(["usual", "generated", "mixed", "poisoned", "no json"]))
    if isinstance(usual, bytes):
        return usual if kind == "usual" else usual[: len(usual) // 2] + data.draw(st.binary(max_size=50))
    if kind == "no json":
        return data.draw(st.sampled_from([b"", b"{", b"[]", b"null", b"\xff", b'"\\ud800"', b"1", b"[" * 2000]))
    if kind == "mixed" and is_mapping:
        keys = data.draw(st.sets(st.sampled_from(sorted(generated)))) if generated else set()
        return json.dumps({**usual, **{key: generated[key] for key in keys}}, default=str).encode()
    if kind == "poisoned" and is_mapping:
        names = sorted({**usual, **generated})
        name = data.draw(st.sampled_from(names)) if names else "a"
        rest = json.dumps({key: value for key, value in usual.items() if key != name})[1:]
        return f'{{"{name}": {data.draw(st.sampled_from(POISON_JSON))}{"," if len(rest) > 1 else ""}{rest}'.encode()
    if kind == "generated" and not isinstance(generated, schemathesis.core.NotSet):
        return json.dumps(generated, default=str).encode()
    return b"" if usual is None else json.dumps(usual).encode()


def validators_of(operation) -> dict[str, dict[str, jsonschema_rs.Draft202012Validator]]:
    """Return what the description says about each status and type of content."""
    return {
        status: {
            kind: validator_of(json.dumps(content["schema"])) for kind, content in answer.get("content", {}).items()
        }
        for status, answer in operation.definition.raw["responses"].items()
    }


@cache
def validator_of(schema: str) -> jsonschema_rs.Draft202012Validator:
    """Return what checks a value; all routes share that of failures."""
    return jsonschema_rs.Draft202012Validator({**json.loads(schema), "components": DOCUMENT["components"]})


def find_faults(answers, answer, content: bytes) -> Iterator[str]:
    """Say what the description did not foretell."""
    kinds = answers.get(str(answer.status_code))
    if kinds is None:
        yield "is not described"
        return
    kind = answer.headers.get("Content-Type", "").partition(";")[0]
    if "*/*" in kinds or (not kinds and not content):
        return
    if kind not in kinds:
        yield f"is {kind}, not {', '.join(kinds) or 'empty'}"
        return
    for error in kinds[kind].iter_errors(json.loads(content)):
        yield f"has another shape: {error.message} at {list(error.instance_path)}"[:300]
