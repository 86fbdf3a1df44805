"""Calls of the HTTP API, as a program with a token makes them."""

import json
from typing import NamedTuple

from django.test import Client

from accounts.permissions import Actor
from accounts.services import tokens


class Answer(NamedTuple):
    """The status of an answer, and its body read as JSON (None when it is empty)."""

    status: int
    body: dict


def bearer(actor: Actor) -> dict[str, str]:
    """Return the header that makes a request the actor's."""
    _, secret = tokens.create_token(actor=actor, name="test", expires_at=None)
    return {"Authorization": f"Bearer {secret}"}


def call(actor: Actor | None, method: str, path: str, body: object = None, **headers: str) -> Answer:
    """Call a route of the API as an actor, or as nobody."""
    answer = Client().generic(
        method,
        f"/api/v1{path}",
        data=b"" if body is None else json.dumps(body).encode(),
        content_type="application/json",
        headers={**(bearer(actor) if actor else {}), **headers},
    )
    return Answer(answer.status_code, json.loads(answer.content) if answer.content else None)
