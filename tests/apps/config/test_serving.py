"""Nobody can take all connections of a web process."""

import asyncio
import json
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

import pytest
import uvicorn
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator

from config import body_limits, serving
from config.body_limits import with_body_pace

HALF = b"GET / HTTP/1.1\r\nHost: nearline\r\n"
WHOLE = HALF + b"Connection: close\r\n\r\n"
HALF_BODY = b"POST / HTTP/1.1\r\nHost: nearline\r\nContent-Length: 5\r\n\r\n12"


async def application(_scope, receive, send) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


class Client:
    """A connection."""

    @classmethod
    async def connect(cls, port: int, sent: bytes) -> "Client":
        self = cls()
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        await self.send(sent)
        return self

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def read_to_end(self) -> bytes:
        try:
            return await self._reader.read()
        except ConnectionError:
            return b""

    def close(self) -> None:
        self._writer.close()

    @property
    def is_cut_off(self) -> bool:
        return self._reader.at_eof() or self._reader.exception() is not None


@asynccontextmanager
async def served():
    config = uvicorn.Config(application, http=serving.Connection, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    listener = serving.listen("127.0.0.1", 0)
    serving_task = asyncio.create_task(server._serve([listener]))
    while not server.started:  # noqa: ASYNC110 (uvicorn tells it by this alone)
        await asyncio.sleep(0.01)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        await serving_task


@pytest.mark.parametrize("sent", [b"", HALF])
def test_whoever_sends_no_whole_head_in_time_is_cut_off(monkeypatch, sent):
    monkeypatch.setattr(serving, "HEAD_S", 0.05)

    async def talk() -> None:
        async with served() as port:
            client = await Client.connect(port, sent)
            assert await client.read_to_end() == b""

    asyncio.run(talk())


def test_a_head_that_begins_on_a_connection_that_was_used_has_to_end_in_time_too(monkeypatch):
    monkeypatch.setattr(serving, "HEAD_S", 2.0)

    async def talk() -> None:
        async with served() as port:
            client = await Client.connect(port, HALF + b"\r\n" + HALF)
            assert (await client.read_to_end()).startswith(b"HTTP/1.1 204")

    asyncio.run(talk())


@pytest.mark.parametrize("half", [HALF, HALF_BODY])
def test_whoever_keeps_the_server_waiting_makes_room_for_others_the_oldest_first(monkeypatch, half):
    monkeypatch.setattr(serving, "HEAD_S", 600.0)
    monkeypatch.setattr(serving, "most_connections", lambda: 2)
    monkeypatch.setattr(serving, "_servers", WeakKeyDictionary())

    async def talk() -> None:
        async with served() as port:
            first, second = [await Client.connect(port, half) for _ in range(2)]
            [known] = serving._servers.values()
            while len(known._bodies if half == HALF_BODY else known._heads) < 2:  # noqa: ASYNC110 (until it has read them)
                await asyncio.sleep(0.01)
            third = await Client.connect(port, WHOLE)
            assert (await third.read_to_end()).startswith(b"HTTP/1.1 204")
            assert await first.read_to_end() == b""
            assert not second.is_cut_off
            second.close()  # or from Python 3.12 on the server waits for it

    asyncio.run(talk())


def test_the_process_may_open_as_many_files_as_the_system_allows(monkeypatch):
    given = []
    monkeypatch.setattr(serving.resource, "getrlimit", lambda _: (1024, 524_288))
    monkeypatch.setattr(serving.resource, "setrlimit", lambda _, limits: given.append(limits))

    serving.allow_many_files()

    assert given == [(65_536, 524_288)]


def ask(*messages: dict, headers: list[tuple[bytes, bytes]]) -> tuple[int, dict]:
    """Send messages to an application behind the watch of bodies; return the status and the content of the answer."""

    async def talk() -> tuple[dict, dict]:
        scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
        server = ApplicationCommunicator(with_body_pace(_read_all), scope)
        for message in messages:
            await server.send_input({"type": "http.request", **message})
        return await server.receive_output(60), await server.receive_output(60)

    start, body = async_to_sync(talk)()
    return start["status"], json.loads(body["body"] or b"null")


async def _read_all(_scope, receive, send) -> None:
    while (message := await receive()).get("more_body"):
        pass
    if message["type"] == "http.request":
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def test_a_body_that_comes_too_slowly_is_refused(monkeypatch):
    monkeypatch.setattr(body_limits, "WITHIN_S", 0.05)

    status, answer = ask({"body": b"1", "more_body": True}, headers=[(b"content-length", b"5")])

    assert (status, answer["code"]) == (408, "core.body_too_slow")


def test_a_body_that_comes_is_taken():
    messages = [{"body": b"x" * 20_000, "more_body": True}] * 3

    assert ask(*messages, {"body": b"", "more_body": False}, headers=[(b"transfer-encoding", b"chunked")])[0] == 204
