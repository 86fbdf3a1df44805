"""Bodies are written to disk before anybody looks at them, so those that are too large are refused while they come."""

import json

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator

from compute.adapters.job_tokens import sign_attempt
from config import body_limits
from config.body_limits import with_body_limit
from tests.contracts.compute_driver import make_launch

PIECE = 1000


@pytest.fixture
def spooled(monkeypatch) -> list[bytes]:
    monkeypatch.setattr(body_limits, "MOST_BYTES", 2 * PIECE)
    return []


def send(
    spooled: list[bytes], pieces: int, headers: list[tuple[bytes, bytes]], path: str = "/accounts/login/"
) -> tuple[int, dict]:
    """Send a body to what keeps each as Django does; return the status and the content of the answer."""

    async def application(_scope, receive, send):
        while (message := await receive())["type"] == "http.request":
            spooled.append(message["body"])
            if not message["more_body"]:
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": b"{}"})
                return

    async def talk() -> tuple[dict, dict]:
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
        server = ApplicationCommunicator(with_body_limit(application), scope)
        for number in range(pieces):
            more = number < pieces - 1
            await server.send_input({"type": "http.request", "body": b"x" * PIECE, "more_body": more})
        return await server.receive_output(), await server.receive_output()

    start, body = async_to_sync(talk)()
    return start["status"], json.loads(body["body"])


def test_a_body_within_the_limit_arrives_whole(spooled):
    assert send(spooled, 2, []) == (200, {})
    assert len(b"".join(spooled)) == 2 * PIECE


@pytest.mark.parametrize("headers", [[], [(b"authorization", b"Bearer of:nothing")], [(b"content-length", b"5")]])
def test_a_larger_body_is_refused_while_it_comes(spooled, headers):
    status, answer = send(spooled, 10, headers)

    assert (status, answer["code"]) == (413, "core.body_too_large")
    assert len(b"".join(spooled)) == 2 * PIECE


def test_a_body_that_says_that_it_is_larger_is_not_read(spooled):
    status, answer = send(spooled, 10, [(b"content-length", b"10000")])

    assert (status, answer["code"], spooled) == (413, "core.body_too_large", [])


def test_the_archive_of_a_pod_has_no_limit(spooled):
    headers = [(b"authorization", f"Bearer {sign_attempt(make_launch('train', 'true'))}".encode())]

    assert send(spooled, 10, headers, "/api/v1/attempt/output") == (200, {})
    assert len(b"".join(spooled)) == 10 * PIECE
    assert send(spooled, 10, headers)[0] == 413
