"""Code that a client sends waits for a store that is away, and says for what."""

import httpx
import pytest

from nearline._http import Http, api_policy
from nearline.errors import Failed, Unavailable
from nearline.resources.code_bundle import get_code, send_code

AWAY = "The store's folder is not there."
ANSWERS = {
    "/api/v1/code/uploads": {"id": "up_1", "put_proof": "payload-sha256", "known_roots": ["0" * 64]},
    "/api/v1/uploads/up_1/downloads": {
        "items": [{"request": {"method": "GET", "url": "/store/signed", "headers": {}, "expires_at": None}}]
    },
}


class StoreThatIsAway:
    """Is away at the first request, and refuses the next one for good."""

    def __init__(self) -> None:
        self._errors = [Unavailable(AWAY), Failed("It is lost.")]

    def receive(self, *_request, **_options) -> memoryview:
        raise self._errors.pop(0)

    def close(self) -> None:
        pass


def test_code_says_what_it_waits_for(tmp_path):
    (tmp_path / "train.py").write_text("print(1)")
    server = httpx.MockTransport(lambda request: httpx.Response(200, json=ANSWERS[request.url.path]))
    waits = []
    http = Http(
        "http://127.0.0.1:1", "token", transport=server, store=StoreThatIsAway(), policy=api_policy(waits.append)
    )

    with pytest.raises(Failed, match="It is lost"):
        send_code(http, "demo", get_code(tmp_path))

    assert [waiting.reason for waiting in waits] == [AWAY]
