"""That the process lives is told without Django, which may be busy."""

import json

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator

from config.liveness import with_liveness


async def busy(scope, receive, send):
    raise AssertionError(f"{scope['path']} waits")


def ask(path: str) -> list[dict]:
    async def talk() -> list[dict]:
        scope = {"type": "http", "method": "GET", "path": path, "headers": []}
        server = ApplicationCommunicator(with_liveness(busy), scope)
        await server.send_input({"type": "http.request", "body": b"", "more_body": False})
        return [await server.receive_output(), await server.receive_output()]

    return async_to_sync(talk)()


def test_it_is_told_while_requests_wait():
    start, body = ask("/healthz")

    assert start["status"] == 200
    assert json.loads(body["body"]) == {"status": "ok"}


def test_all_else_is_for_the_application():
    with pytest.raises(AssertionError, match="/readyz waits"):
        ask("/readyz")
