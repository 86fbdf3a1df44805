"""Nobody's requests block those of others."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator

from accounts import permissions
from config import turns
from config.turns import Turns, with_turns

ALICE, BOB = b"Bearer alice", b"Bearer bob"
END = {"type": "http.request", "body": b"", "more_body": False}


@pytest.fixture(autouse=True)
def _is_slow_machine(monkeypatch) -> None:
    monkeypatch.setattr(turns, "LONG_S", 600.0)


class Site:
    """A site whose requests are at work until the test answers them. It knows Alice and Bob by their tokens."""

    def __init__(self, at_once: int = 2, waiting: int = 3) -> None:
        self.at_work: list[str] = []
        self._requests: list[ApplicationCommunicator] = []  # one that nobody refers to is broken off
        self._answers: dict[str, asyncio.Queue[dict]] = {}
        self._application = with_turns(self._serve, Turns(at_once, waiting))

    async def _serve(self, scope, receive, send) -> None:
        while (message := await receive()).get("more_body"):
            pass
        if message["type"] == "http.disconnect":
            return
        path = scope["path"]
        token = dict(scope["headers"]).get(b"authorization")
        if token in {ALICE, BOB}:
            permissions.tell_caller(token.decode())
        self.at_work.append(path)
        answer = self._answers.setdefault(path, asyncio.Queue())
        has_more = True
        while has_more:
            message = await answer.get()
            await send(message)
            has_more = message["type"] != "http.response.body" or message["more_body"]

    async def ask(
        self, path: str, token: bytes = b"", body: dict | None = None, address: str = "10.0.0.1"
    ) -> ApplicationCommunicator:
        """Send a request with all of its body, or with the part that is given."""
        headers = [(b"authorization", token)] if token else []
        scope = {"type": "http", "method": "GET", "path": path, "headers": headers, "client": (address, 1)}
        request = ApplicationCommunicator(self._application, scope)
        self._requests.append(request)
        await request.send_input(body or END)
        await settle()
        return request

    async def ask_all(self, paths: str, token: bytes = b"") -> list[ApplicationCommunicator]:
        return [await self.ask(path, token) for path in paths.split()]

    async def begin(self, path: str, kind: bytes = b"text/plain") -> None:
        """Begin to answer."""
        headers = [(b"content-type", kind)]
        self._answers[path].put_nowait({"type": "http.response.start", "status": 200, "headers": headers})
        await settle()

    async def go_on(self, path: str, *, is_end: bool = False) -> None:
        """Send some of an answer."""
        self._answers[path].put_nowait({"type": "http.response.body", "body": b"ok", "more_body": not is_end})
        await settle()

    async def answer(self, *paths: str) -> None:
        for path in paths:
            await self.begin(path)
            await self.go_on(path, is_end=True)

    async def introduce(self, *tokens: bytes) -> None:
        """Answer a request with each token, as a caller is known from then on."""
        for token in tokens:
            request = await self.ask("hello", token)
            await self.answer("hello")
            await request.wait(60)
        self.at_work.clear()


async def settle() -> None:
    """Let everything happen that needs no time."""
    for _ in range(20):
        await asyncio.sleep(0)


async def answer_of(request: ApplicationCommunicator) -> tuple[int, dict[bytes, bytes], bytes]:
    start, body = await request.receive_output(60), await request.receive_output(60)
    return start["status"], dict(start["headers"]), body["body"]


def in_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        async_to_sync(test)()

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run


@in_loop
async def test_a_caller_has_a_few_requests_at_work_and_keeps_nobody_waiting():
    site = Site()
    await site.introduce(ALICE, BOB)

    await site.ask_all("a1 a2 a3 a4", ALICE)
    await site.ask_all("b1", BOB)

    assert site.at_work == ["a1", "a2", "b1"]


@in_loop
async def test_a_request_that_ends_lets_the_next_begin():
    site = Site()
    await site.introduce(ALICE)
    await site.ask_all("a1 a2 a3 a4", ALICE)

    await site.answer("a2")

    assert site.at_work == ["a1", "a2", "a3"]


@in_loop
async def test_callers_take_turns():
    site = Site(at_once=1)
    await site.introduce(ALICE, BOB)
    await site.ask_all("x", b"Bearer x")
    await site.ask_all("a1 a2 a3", ALICE)
    await site.ask_all("b1 b2 b3", BOB)
    assert site.at_work == ["x", "a1"]

    for path in ("x", "a1", "b1", "a2", "b2"):
        await site.answer(path)

    assert site.at_work == ["x", "a1", "b1", "a2", "b2", "a3", "b3"]


@in_loop
async def test_more_than_may_wait_are_refused_at_once_and_in_our_form():
    site = Site()
    await site.introduce(ALICE, BOB)
    *_, refused = await site.ask_all("a1 a2 a3 a4 a5 /api/v1/datasets", ALICE)

    status, headers, body = await answer_of(refused)

    assert (status, headers[b"retry-after"], json.loads(body)["code"]) == (429, b"2", "core.too_many_requests")
    await site.ask_all("b1", BOB)
    assert site.at_work == ["a1", "a2", "b1"]


@in_loop
async def test_a_person_is_refused_with_a_page():
    site = Site()
    *_, refused = await site.ask_all("p1 p2 p3 p4 p5 /datasets")

    status, headers, body = await answer_of(refused)

    assert (status, headers[b"content-type"]) == (429, b"text/html; charset=utf-8")
    assert b"Too many requests" in body


@in_loop
async def test_whoever_makes_up_credentials_gets_no_more_turns():
    site = Site()
    await site.introduce(BOB)

    for number in range(5):
        await site.ask(f"x{number}", b"Bearer %d" % number)
    await site.ask_all("b1", BOB)

    assert site.at_work == ["x0", "x1", "b1"]


@in_loop
async def test_whoever_has_a_network_of_addresses_gets_no_more_turns():
    site = Site()

    for number in range(1, 4):
        await site.ask(f"x{number}", address=f"2001:db8::{number}%eth0")
    for address in ("2001:db8:0:1::1", "::ffff:10.0.0.2"):
        await site.ask(address, address=address)

    assert site.at_work == ["x1", "x2", "2001:db8:0:1::1", "::ffff:10.0.0.2"]


@in_loop
async def test_whoever_leaves_the_line_gets_no_turn():
    site = Site(at_once=1)
    await site.introduce(ALICE)
    _, leaving, _ = await site.ask_all("a1 a2 a3", ALICE)

    await leaving.send_input({"type": "http.disconnect"})
    await settle()
    await site.answer("a1")

    assert site.at_work == ["a1", "a3"]


@in_loop
async def test_neither_a_slow_upload_nor_a_slow_download_takes_a_turn():
    site = Site(at_once=1)
    await site.introduce(ALICE)

    upload = await site.ask("up", ALICE, {"type": "http.request", "body": b"part", "more_body": True})
    await site.ask("down", ALICE)
    await site.begin("down")
    await site.go_on("down")
    await site.ask("a1", ALICE)
    assert site.at_work == ["down", "a1"]

    await upload.send_input(END)
    await settle()
    await site.answer("a1")
    assert site.at_work == ["down", "a1", "up"]


def test_a_caller_has_no_more_downloads_than_may_be(monkeypatch):
    monkeypatch.setattr(turns, "MOST_LONG", 1)

    async def ask() -> None:
        site = Site()
        await site.introduce(ALICE)
        await site.ask("events", ALICE)
        await site.begin("events", b"text/event-stream")
        await site.go_on("events")
        await site.ask("down", ALICE)
        await site.begin("down")
        await site.go_on("down")
        await site.ask("a1", ALICE)
        assert site.at_work == ["events", "down"]

        await site.go_on("down", is_end=True)
        assert site.at_work == ["events", "down", "a1"]

    async_to_sync(ask)()


def test_a_whole_answer_that_is_not_taken_counts_as_a_download(monkeypatch):
    monkeypatch.setattr(turns, "MOST_LONG", 1)

    async def ask() -> None:
        at_work: list[str] = []
        is_taken = asyncio.Event()

        async def serve(scope, receive, send) -> None:
            await receive()
            at_work.append(scope["path"])
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"ok"})

        async def send(message) -> None:
            if message["type"] == "http.response.body":
                await is_taken.wait()

        application, requests = with_turns(serve, Turns(2, 3)), []
        for path in ("down", "a1"):
            received: asyncio.Queue[dict] = asyncio.Queue()
            received.put_nowait(END)
            scope = {"type": "http", "path": path, "headers": [], "client": ("10.0.0.1", 1)}
            requests.append(asyncio.ensure_future(application(scope, received.get, send)))
            await settle()
        assert at_work == ["down"]

        is_taken.set()
        await asyncio.gather(*requests)
        assert at_work == ["down", "a1"]

    async_to_sync(ask)()


def test_a_request_that_takes_long_gives_its_turn_back(monkeypatch):
    monkeypatch.setattr(turns, "LONG_S", 0.0)

    async def ask() -> None:
        site = Site(at_once=1)
        await site.introduce(ALICE)
        await site.ask_all("a1 a2", ALICE)
        await asyncio.sleep(0.01)  # in which timers that are due run, however long it takes
        await settle()
        assert site.at_work == ["a1", "a2"]

    async_to_sync(ask)()


@pytest.mark.parametrize("token", [ALICE, b""])
def test_a_request_that_waits_too_long_is_refused(monkeypatch, token):
    monkeypatch.setattr(turns, "LONGEST_WAIT_S", 0.0)

    async def ask() -> None:
        site = Site(at_once=1)
        await site.introduce(ALICE)
        _, late = await site.ask_all("a1 /api/v1/datasets", token)
        status, headers, _ = await answer_of(late)
        assert (status, headers[b"retry-after"]) == (429, b"2")
        assert site.at_work == ["a1"]

    async_to_sync(ask)()
