"""Connections to jobs, carried by WebSockets: taken off before Django, which serves none.

The ticket of a connection is the bearer token of its handshake, so no page of another site can open one. Binary
messages are bytes of the connection in both directions. Text messages are JSON: `{"type": "end"}` says that a side
sends no more, `{"type": "error", ...}` why the server ends the connection. Of a terminal `{"type": "exit", "code": 0}`
says how its command ended, and the client tells its size by `{"type": "resize", "columns": 80, "rows": 24}`.

An open connection holds no thread and no database connection, and how many a person may have is limited: whoever
forgets one slows nobody else. One task of the process checks every few seconds whether those that are open still may
be, and notes the use of jobs whose connections have carried something.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import structlog
from asgiref.sync import sync_to_async
from asgiref.typing import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope, WebSocketScope
from django.db import close_old_connections

from accounts.actor import Actor
from accounts.selectors import find_actor
from compute.adapters import connection_tickets
from compute.adapters.connection_tickets import Claims
from compute.engine.ports import MOST_CELLS, Connection, Terminal
from compute.errors import InvalidTicket, TooManyConnections
from compute.services import connections
from core.errors import InvalidInput, NotFound, PlatformError
from web import problems

log = structlog.get_logger(__name__)
T = TypeVar("T")

PATH: Final = "/connections"
MOST_OF_PERSON: Final = 64
MOST_OF_PROCESS: Final = 256
LOOK_EVERY_S: Final = 5.0
_SYSTEM: Final = Actor.system("connections")
_DONE: Final = 1000
_FAILED: Final = 1011


class _Disconnected(Exception):
    """The client is gone."""


class _OpenConnections:
    """Those of one event loop, each with a future that becomes the reason why it has to end."""

    def __init__(self) -> None:
        self._faults: dict[asyncio.Future[PlatformError], Claims] = {}
        self._used_ids: set[str] = set()
        self._looking: asyncio.Task[None] | None = None

    def add(self, claims: Claims) -> asyncio.Future[PlatformError]:
        """Count a connection in, and return its future. Raises TooManyConnections."""
        counts = Counter(each.user_id for each in self._faults.values())
        if counts[claims.user_id] >= MOST_OF_PERSON:
            raise TooManyConnections(f"You have {MOST_OF_PERSON} connections to jobs open, the most that there may be.")
        if len(self._faults) >= MOST_OF_PROCESS:
            raise TooManyConnections(f"{MOST_OF_PROCESS} connections to jobs are open, the most that there may be.")
        fault: asyncio.Future[PlatformError] = asyncio.get_running_loop().create_future()
        self._faults[fault] = claims
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return fault

    def remove(self, fault: asyncio.Future[PlatformError]) -> None:
        """Count a connection out."""
        del self._faults[fault]

    def note_traffic(self, job_id: str) -> None:
        """Remember until the next check that bytes were carried to or from a job."""
        self._used_ids.add(job_id)

    async def _look(self) -> None:
        while self._faults or self._used_ids:
            await asyncio.sleep(LOOK_EVERY_S)
            open_now, used_ids = dict(self._faults), self._used_ids
            self._used_ids = set()
            try:
                revoked_ids = await _in_thread(partial(_look_at, list(open_now.values()), used_ids))
            except Exception:
                # The database is away, say. What is open stays open until it is back.
                log.exception("connections.look_failed")
                self._used_ids |= used_ids
                continue
            for fault, error in zip(open_now, revoked_ids, strict=True):
                if error is not None and not fault.done():
                    fault.set_result(error)


_open: WeakKeyDictionary[asyncio.AbstractEventLoop, _OpenConnections] = WeakKeyDictionary()


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
        claims = connection_tickets.read(_bearer_of(scope))
        await _connect(claims, await _in_thread(partial(_redeem, claims)), receive, send)
        code = _DONE
    except PlatformError as error:
        facts = {"code": error.code, "title": error.message, "hint": error.hint, "details": dict(error.details)}
        await _send_text(send, {"type": "error", "status": int(problems.STATUS[error.kind]), **facts})
        code = _FAILED
    await _send(send, {"type": "websocket.close", "code": code, "reason": ""})


async def _connect(
    claims: Claims,
    open_connection: Callable[[], Awaitable[Connection]],
    receive: ASGIReceiveCallable,
    send: ASGISendCallable,
) -> None:
    opened = _open.setdefault(asyncio.get_running_loop(), _OpenConnections())
    fault = opened.add(claims)
    try:
        connection = await open_connection()
        try:
            note_traffic = partial(opened.note_traffic, claims.job_id)
            await _Relay(connection, receive, send, note_traffic).run(fault)
        finally:
            await connection.close()
    finally:
        opened.remove(fault)


class _Relay:
    """Carries bytes between a WebSocket and a connection until both sides have ended, or one has failed."""

    def __init__(
        self,
        connection: Connection,
        receive: ASGIReceiveCallable,
        send: ASGISendCallable,
        note_traffic: Callable[[], None],
    ) -> None:
        self._connection, self._receive, self._send = connection, receive, send
        self._note_traffic = note_traffic
        self._terminal = connection if isinstance(connection, Terminal) else None
        self._client_ended = asyncio.Event()

    async def run(self, fault: asyncio.Future[PlatformError]) -> None:
        """Carry bytes. Raises PlatformError for what breaks the connection, and what `fault` becomes."""
        tasks = [asyncio.create_task(self._to_job()), asyncio.create_task(self._from_job())]
        waiting: list[asyncio.Future[Any]] = [fault, *tasks]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if fault.done():
                raise fault.result()
            for task in filter(asyncio.Task.done, tasks):
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _to_job(self) -> None:
        """Go on until the client has left."""
        while True:
            message = await self._receive()
            if message["type"] != "websocket.receive":
                raise _Disconnected
            if (data := message.get("bytes")) is not None:
                if data and not self._client_ended.is_set():
                    self._note_traffic()
                    await self._connection.send(data)
            else:
                await self._obey(message.get("text") or "")

    async def _obey(self, text: str) -> None:
        match _read_message(text):
            case {"type": "end"} if not self._client_ended.is_set():
                self._client_ended.set()
                await self._connection.end_sending()
            case {"type": "end"}:
                return
            case {"type": "resize", "columns": int(columns), "rows": int(rows)} if self._terminal is not None:
                if not (0 < columns <= MOST_CELLS and 0 < rows <= MOST_CELLS):
                    raise InvalidInput(f"A terminal has 1 to {MOST_CELLS} columns and rows.")
                await self._terminal.resize(columns, rows)
            case _:
                raise InvalidInput("A text message has a known type.")

    async def _from_job(self) -> None:
        """Go on until both sides have ended."""
        while data := await self._connection.receive():
            self._note_traffic()
            await _send(self._send, {"type": "websocket.send", "bytes": data, "text": None})
        if self._terminal is not None:
            await _send_text(self._send, {"type": "exit", "code": self._terminal.exit_code})
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


def _redeem(claims: Claims) -> Callable[[], Awaitable[Connection]]:
    actor = find_actor(claims.user_id or 0)
    if actor is None:
        raise InvalidTicket("Whom this ticket was issued to is not there any more.")
    return connections.redeem(actor=actor, claims=claims)


def _look_at(all_claims: list[Claims], used_ids: set[str]) -> list[PlatformError | None]:
    """Note the jobs that were used, and return why each connection has to end; None: it may stay."""
    if used_ids:
        connections.note_traffic(actor=_SYSTEM, job_ids=used_ids)
    faults: list[PlatformError | None] = []
    for claims in all_claims:
        try:
            _redeem(claims)
            faults.append(None)
        except PlatformError as error:
            faults.append(error)
    return faults


async def _send_text(send: ASGISendCallable, content: dict[str, object]) -> None:
    await _send(send, {"type": "websocket.send", "bytes": None, "text": json.dumps(content)})


async def _send(send: ASGISendCallable, message: dict[str, object]) -> None:
    try:
        await send(message)  # type: ignore[arg-type]  # one of ASGI's messages
    except OSError as error:  # what ASGI servers raise when the client is gone
        raise _Disconnected from error


async def _in_thread(call: Callable[[], T]) -> T:
    """Run a short call of the database on a thread of the process's pool."""

    def run() -> T:
        close_old_connections()
        try:
            return call()
        finally:
            close_old_connections()

    return await sync_to_async(run, thread_sensitive=False)()
