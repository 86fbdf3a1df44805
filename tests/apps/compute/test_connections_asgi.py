"""Connections to jobs as their WebSockets are served: what is carried, what is refused, and how they end."""

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator

from accounts.models import User
from compute.engine.ports import TerminalRequest
from compute.models import Job, JobUse
from compute.services import connections
from config.asgi import application

pytestmark = pytest.mark.django_db(transaction=True)

LIMIT_S = 300
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
RESIZE = '{"type": "resize", "columns": %d, "rows": %d}'


@pytest.fixture
def ticket(running, member) -> str:
    return connections.offer_port(actor=member, job=running, port=8888).text


@asynccontextmanager
async def connect(ticket: str | None, path: str = "/connections"):
    """Open a WebSocket, and at its end leave."""
    headers = [] if ticket is None else [(b"authorization", f"Bearer {ticket}".encode())]
    scope = {"type": "websocket", "path": path, "query_string": b"", "headers": headers, "client": ("127.0.0.1", 1)}
    socket = ApplicationCommunicator(application, scope)
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(LIMIT_S))["type"] == "websocket.accept"
    try:
        yield socket
    finally:
        await socket.send_input({"type": "websocket.disconnect", "code": 1001})
        await socket.wait(timeout=LIMIT_S)


async def send(socket, data: bytes | str) -> None:
    kind = "bytes" if isinstance(data, bytes) else "text"
    await socket.send_input({"type": "websocket.receive", kind: data})


async def receive(socket) -> object:
    """Return the bytes, the text as JSON, or the code of the close that comes next."""
    message = await socket.receive_output(LIMIT_S)
    if message["type"] == "websocket.close":
        return message["code"]
    return message["bytes"] if message["bytes"] is not None else json.loads(message["text"])


async def receive_refusal(socket) -> tuple[str, int]:
    """Return the code of the error that comes next, once the connection was closed after it."""
    error = await receive(socket)
    assert error["type"] == "error"
    assert await receive(socket) == 1011
    return error["code"], error["status"]


def test_bytes_are_carried_in_both_directions_until_both_sides_have_ended(ticket):
    async def talk():
        async with connect(ticket) as socket:
            await send(socket, b"one")
            first = await receive(socket)
            await send(socket, b"two")
            await send(socket, '{"type": "end"}')
            return [first, *[await receive(socket) for _ in range(3)]]

    assert async_to_sync(talk)() == [b"one", b"two", {"type": "end"}, 1000]


@pytest.mark.parametrize("given", [None, "", "nonsense"])
def test_what_is_no_ticket_opens_nothing(db, given):
    async def talk():
        async with connect(given) as socket:
            return await receive_refusal(socket)

    assert async_to_sync(talk)() == ("compute.invalid_ticket", 401)


def test_a_disabled_person_opens_nothing(ticket, member):
    User.objects.filter(pk=member.user_id).update(is_active=False)

    async def talk():
        async with connect(ticket) as socket:
            return await receive_refusal(socket)

    assert async_to_sync(talk)() == ("compute.invalid_ticket", 401)


def test_a_terminal_tells_how_its_command_ended(running, member):
    request = TerminalRequest(("ls",), columns=80, rows=24)
    ticket = connections.offer_terminal(actor=member, job=running, request=request).text

    async def talk():
        async with connect(ticket) as socket:
            await send(socket, RESIZE % (100, 30))
            await send(socket, b"exit")
            return [await receive(socket) for _ in range(4)]

    assert async_to_sync(talk)() == [b"ls in 80 x 24\n", b"100 x 30\n", {"type": "exit", "code": 3}, 1000]


def test_there_is_no_other_websocket(ticket):
    async def talk():
        async with connect(ticket, "/live/") as socket:
            return await receive_refusal(socket)

    assert async_to_sync(talk)() == ("core.not_found", 404)


@pytest.mark.parametrize("text", ["", "end", "[]", "{}", '{"type": "start"}', "[" * 100_000, RESIZE % (80, 24)])
def test_a_message_that_means_nothing_ends_the_connection(ticket, text):
    async def talk():
        async with connect(ticket) as socket:
            await send(socket, text)
            return await receive_refusal(socket)

    assert async_to_sync(talk)() == ("core.invalid_input", 400)


def test_a_port_on_which_nothing_listens_is_told(running, member):
    ticket = connections.offer_port(actor=member, job=running, port=1).text

    async def talk():
        async with connect(ticket) as socket:
            return await receive_refusal(socket)

    assert async_to_sync(talk)() == ("compute.port_not_open", 409)


def test_an_open_connection_ends_with_its_job_and_what_it_carried_is_use_of_it(running, ticket):
    old = {"limit_s": 3600, "used_at": NOON, "used_by": "watch", "looked_at": NOON, "look_at": NOON}
    JobUse.objects.create(job=running, token=running.token, sampled_at=NOON, **old)

    async def talk():
        async with connect(ticket) as socket:
            await send(socket, b"one")
            assert await receive(socket) == b"one"
            await asyncio.to_thread(lambda: Job.objects.filter(pk=running.pk).update(state="succeeded"))
            return await receive_refusal(socket)

    assert async_to_sync(talk)() == ("compute.job_not_running", 409)
    use = JobUse.objects.get()
    assert (use.used_by, use.used_at > NOON) == ("connection", True)
