"""The quick endpoint of the folder store."""

import asyncio
import json

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient

from accounts.permissions import Actor
from core import clock
from datasets.adapters import folder_marks
from datasets.adapters.opening import open_store
from datasets.services import stores
from datasets.web.store_views import with_store_door
from tests.contracts.blob_store import BODY, LIFETIME_S, announce

# The endpoint works on threads of its own, so what it looks up must have been committed.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def store(tmp_path):
    row = stores.register_folder_store(actor=Actor.system("test"), name="folder", folder=tmp_path / "store")
    return open_store(row)


def path_of(request):
    return "/store/" + request.url.rsplit("/store/", 1)[1]


def sign(store, key="packs/a", body=BODY):
    return path_of(store.sign_put(key, announce(body), now=clock.now(), lifetime_s=LIFETIME_S))


def put(path, messages, *, length=None, method="PUT"):
    """Play an ASGI server; return the status, the body of the answer and how many messages were taken."""
    sent, taken = [], []

    async def receive():
        taken.append(1)
        return messages[len(taken) - 1] if len(taken) <= len(messages) else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    async def django(scope, receive, send):
        await send({"type": "http.response.start", "status": 299})
        await send({"type": "http.response.body", "body": b""})

    headers = [] if length is None else [(b"content-length", str(length).encode())]
    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    asyncio.run(with_store_door(django)(scope, receive, send))
    return sent[0]["status"], sent[1]["body"], len(taken)


def pieces(*parts):
    return [
        {"type": "http.request", "body": part, "more_body": number < len(parts) - 1}
        for number, part in enumerate(parts)
    ]


def test_a_body_in_pieces_is_stored_whole(store):
    status, _, _ = put(sign(store), pieces(BODY[:7], b"", BODY[7:]), length=len(BODY))

    assert status == 200
    assert store.get("packs/a") == BODY


def test_a_large_body_is_stored_whole(store):
    body = bytes(range(256)) * 20_000
    parts = [body[start : start + 65_536] for start in range(0, len(body), 65_536)]

    status, _, _ = put(sign(store, body=body), pieces(*parts), length=len(body))

    assert status == 200
    assert store.get("packs/a") == body


@pytest.mark.parametrize("path", ["/store/forged", "/store/"])
def test_a_forged_address_is_refused_before_a_byte_is_taken(store, path):
    status, body, taken = put(path, pieces(BODY))

    assert (status, json.loads(body)["code"], taken) == (403, "datasets.signature_invalid", 0)


def test_a_late_request_is_told_so(store):
    request = store.sign_put("packs/a", announce(BODY), now=clock.now(), lifetime_s=-1)

    status, body, taken = put(path_of(request), pieces(BODY))

    assert (status, json.loads(body)["code"], taken) == (403, "datasets.signature_expired", 0)


def test_a_wrong_length_is_refused_before_a_byte_is_taken(store):
    status, body, taken = put(sign(store), pieces(BODY), length=len(BODY) + 1)

    assert (status, json.loads(body)["code"], taken) == (400, "datasets.body_refused", 0)


@pytest.mark.parametrize("parts", [(BODY[::-1],), (BODY[:-1],), (BODY, b"more"), (b"",)])
def test_a_wrong_body_leaves_nothing(store, tmp_path, parts):
    status, body, _ = put(sign(store), pieces(*parts))

    assert (status, json.loads(body)["code"]) == (400, "datasets.body_refused")
    assert [path.name for path in (tmp_path / "store").rglob("*") if path.is_file()] == [folder_marks.STORE_MARK]


def test_a_client_that_goes_away_leaves_nothing(store, tmp_path):
    status, _, _ = put(sign(store), [{"type": "http.request", "body": BODY[:5], "more_body": True}])

    assert status == 400
    assert [path.name for path in (tmp_path / "store").rglob("*") if path.is_file()] == [folder_marks.STORE_MARK]


@pytest.mark.parametrize(("method", "path"), [("GET", "/store/x"), ("PUT", "/api/v1/x"), ("PUT", "/other/store/x")])
def test_all_else_is_djangos(store, method, path):
    assert put(path, [], method=method)[0] == 299


def test_an_asynchronous_server_streams_the_object(store):
    store.put("packs/a", BODY * 50_000)
    path = path_of(store.sign_get("packs/a", now=clock.now(), lifetime_s=LIFETIME_S))

    async def read():
        response = await AsyncClient().get(path)
        assert response.is_async
        return [chunk async for chunk in response.streaming_content]

    chunks = async_to_sync(read)()

    assert b"".join(chunks) == BODY * 50_000
    assert len(chunks) == 3
