"""What a body of the API may hold: whatever the route, what cannot be stored is refused before anybody reads it."""

import pytest
from django.test import Client

from accounts.models import Project
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
