"""Connections to jobs, carried by WebSockets: taken off before Django, which serves none.

The ticket of a connection is the bearer token of its handshake, so no page of another site can open one. Binary
messages are bytes of the connection in both directions. Text messages are JSON: `{"type": "end"}` says that a side
sends no more, `{"type": "error", ...}` why the server ends the connection. Of a terminal `{"type": "exit", "code": 0}`
says how its command ended, and the client tells its size by `{"type": "resize", "columns": 80, "rows": 24}`.
"""

import asyncio
import json
from contextlib import suppress
from typing import Final

from asgiref.typing import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope, WebSocketScope

from compute.adapters import job_tokens
from compute.engine.ports import MOST_CELLS
from compute.errors import InvalidTicket
from compute.web.open_connections import OpenConnection, opened
from core.errors import InvalidInput, NotFound, PlatformError
from web import problems

PATH: Final = "/connections"
_DONE: Final = 1000
_FAILED: Final = 1011


class _Disconnected(Exception):
    """The client is gone."""


def with_connections(application: ASGI3Application) -> ASGI3Application:
    """Return the application with this endpoint in front of it."""

    async def serve(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] == "websocket":
            with suppress(_Disconnected):
                await _serve(scope, receive, send)
        else:
            await application(scope, receive, send)

    return serve


async def _serve(scope: WebSocketScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Accept every handshake, and say in a message what is refused: servers differ in how they refuse one."""
    await receive()
    await _send(send, {"type": "websocket.accept", "subprotocol": None, "headers": []})
    try:
        if scope["path"] != PATH:
            raise NotFound("There is no WebSocket at this address.")
        async with opened(job_tokens.read_ticket(_bearer_of(scope))) as connection:
            relay = _Relay(connection, receive, send)
            await connection.run(relay.to_job(), relay.from_job())
        code = _DONE
    except PlatformError as error:
        facts = {"code": error.code, "title": error.message, "hint": error.hint, "details": dict(error.details)}
        await _send_text(send, {"type": "error", "status": int(problems.STATUS[error.kind]), **facts})
        code = _FAILED
    await _send(send, {"type": "websocket.close", "code": code, "reason": ""})


class _Relay:
    """Carries bytes between a WebSocket and a connection until both sides have ended, or one has failed."""

    def __init__(self, connection: OpenConnection, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        self._connection, self._receive, self._send = connection, receive, send
        self._client_ended = asyncio.Event()

    async def to_job(self) -> None:
        """Go on until the client has left."""
        while True:
            message = await self._receive()
            if message["type"] != "websocket.receive":
                raise _Disconnected
            if (data := message.get("bytes")) is not None:
                if data and not self._client_ended.is_set():
                    await self._connection.send(data)
            else:
                await self._obey(message.get("text") or "")

    async def _obey(self, text: str) -> None:
        terminal = self._connection.terminal
        match _read_message(text):
            case {"type": "end"} if not self._client_ended.is_set():
                self._client_ended.set()
                await self._connection.end_sending()
            case {"type": "end"}:
                return
            case {"type": "resize", "columns": int(columns), "rows": int(rows)} if terminal is not None:
                if not (0 < columns <= MOST_CELLS and 0 < rows <= MOST_CELLS):
                    raise InvalidInput(f"A terminal has 1 to {MOST_CELLS} columns and rows.")
                await terminal.resize(columns, rows)
            case _:
                raise InvalidInput("A text message has a known type.")

    async def from_job(self) -> None:
        """Go on until both sides have ended."""
        while data := await self._connection.receive():
            await _send(self._send, {"type": "websocket.send", "bytes": data, "text": None})
        if (terminal := self._connection.terminal) is not None:
            await _send_text(self._send, {"type": "exit", "code": terminal.exit_code})
            return
        await _send_text(self._send, {"type": "end"})
        await self._client_ended.wait()


def _read_message(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("A text message is JSON.") from error


def _bearer_of(scope: WebSocketScope) -> str:
    values = [value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"]
    scheme, _, ticket = "".join(values[:1]).partition(" ")
    if scheme.lower() != "bearer":
        raise InvalidTicket("A connection needs its ticket, as a bearer token.")
    return ticket.strip()


async def _send_text(send: ASGISendCallable, content: dict[str, object]) -> None:
    await _send(send, {"type": "websocket.send", "bytes": None, "text": json.dumps(content)})


async def _send(send: ASGISendCallable, message: dict[str, object]) -> None:
    try:
        await send(message)  # type: ignore[arg-type]  # one of ASGI's messages
    except OSError as error:  # what ASGI servers raise when the client is gone
        raise _Disconnected from error
