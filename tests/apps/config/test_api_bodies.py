"""What a body of the API may hold: whatever the route, what cannot be stored is refused before anybody reads it."""

import pytest
from django.test import Client
from pydantic import ValidationError

from accounts.models import Project
from core import bounds
from core.bodies import BodySchema
from tests.factories.api import bearer

BAD = {
    "half of a character": b'{"name": "team-b", "description": "\\ud800"}',
    "half of a character as a key": b'{"name": "team-b", "\\udfff": 1}',
    "NUL": b'{"name": "team-b", "description": "a\\u0000b"}',
    "NaN": b'{"name": "team-b", "description": NaN}',
    "a number too large for a float": b'{"name": "team-b", "more": 1e999}',
    "5,000 digits": b'{"name": "team-b", "more": ' + b"9" * 5000 + b"}",
    "64 bits and more": b'{"name": "team-b", "more": 9223372036854775808}',
    "endless nesting": b'{"name": "team-b", "more": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "no JSON": b'{"name": "team-b"',
    "no text": b"\xff\xfe\xfd",
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD.keys())
def test_a_body_that_cannot_be_stored_is_refused_and_nothing_is_made(member, body):
    answer = Client().post("/api/v1/projects", body, content_type="application/json", headers=bearer(member))

    assert (answer.status_code, answer.headers["Content-Type"]) == (400, "application/problem+json")
    assert answer.json()["code"] in {"core.out_of_bounds", "core.invalid_input"}
    assert not Project.objects.filter(name="team-b").exists()


class _Inner(BodySchema):
    count: bounds.Quantity | None = None
    days: bounds.Days = 1
    config: dict[str, bounds.Quantity | bounds.Line | None] = {}
    scalar: bool | bounds.Whole | bounds.Text = 1


class _Outer(BodySchema):
    items: list[_Inner]


@pytest.mark.parametrize(
    ("item", "location"),
    [
        ({"count": True}, "count"),
        ({"count": "20"}, "count"),
        ({"days": "1.5"}, "days"),
        ({"days": False}, "days"),
        ({"config": {"max_volumes": True}}, "config"),
    ],
)
def test_a_number_is_neither_a_text_nor_a_truth_value(item, location):
    with pytest.raises(ValidationError) as raised:
        _Outer(items=[item])

    assert {error["loc"][2] for error in raised.value.errors()} == {location}


def test_numbers_are_taken_as_json_writes_them():
    item = {"count": 20.0, "days": 2, "config": {"a": 1, "b": "2", "c": None}, "scalar": True}

    assert _Outer(items=[item]).model_dump() == {"items": [item | {"count": 20, "days": 2.0}]}
