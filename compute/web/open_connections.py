"""The connections into jobs that the event loop of this process carries: who may have how many, and for how long.

An open connection holds no thread and no database connection, and how many a person may have is limited: whoever
forgets one slows nobody else. One task of the process checks every few seconds whether those that are open still may
be, and notes the use of jobs whose connections have carried something.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import structlog
from asgiref.sync import sync_to_async
from django.db import DatabaseError, InterfaceError, close_old_connections

from accounts.permissions import Actor
from accounts.selectors import find_actor
from compute.adapters.job_tokens import Claims
from compute.engine.ports import Connection, Terminal
from compute.errors import InvalidTicket, TooManyConnections
from compute.services import connections
from core.errors import PlatformError
from core.outages import find_outage, log_failure

log = structlog.get_logger(__name__)
T = TypeVar("T")

MOST_OF_PERSON: Final = 64
MOST_OF_PROCESS: Final = 256
LOOK_EVERY_S: Final = 5.0
_SYSTEM: Final = Actor.system("connections")


class OpenConnection:
    """A connection into a job that is counted and checked. `fault` becomes the reason why it has to end."""

    def __init__(self, connection: Connection, fault: asyncio.Future[PlatformError], note: Callable[[], None]) -> None:
        self._connection, self._fault, self._note = connection, fault, note
        self.terminal = connection if isinstance(connection, Terminal) else None

    async def receive(self) -> bytes:
        """Return what comes next; empty: nothing more comes. Raises ConnectionBroken."""
        data = await self._connection.receive()
        if data:
            self._note()
        return data

    async def send(self, data: bytes) -> None:
        """Send some bytes, once there is space for them."""
        self._note()
        await self._connection.send(data)

    async def end_sending(self) -> None:
        """Say that nothing more is sent."""
        await self._connection.end_sending()

    async def close(self) -> None:
        """End it. It may be repeated."""
        await self._connection.close()

    async def run(self, *works: Awaitable[None]) -> None:
        """Do what is done with it until one of the works is done. Raises what that raised, and why it has to end."""
        tasks = [asyncio.ensure_future(work) for work in works]
        waiting: list[asyncio.Future[Any]] = [self._fault, *tasks]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if self._fault.done():
                raise self._fault.result()
            for task in filter(asyncio.Task.done, tasks):
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def opened(claims: Claims) -> AsyncIterator[OpenConnection]:
    """Open the connection that claims are for, if their owner may still have it, and close it at the end.

    Raises TooManyConnections, DatabaseUnavailable, and what `connections.redeem` and the driver raise.
    """
    open_here = _open.setdefault(asyncio.get_running_loop(), _OpenConnections())
    try:
        open_connection = await in_thread(partial(_redeem, claims))
    except (DatabaseError, InterfaceError) as error:
        if (outage := find_outage(error)) is None:
            raise
        raise outage from error
    fault = open_here.add(claims)
    try:
        connection = await open_connection()
        try:
            yield OpenConnection(connection, fault, partial(open_here.note_traffic, claims.job_id))
        finally:
            await connection.close()
    finally:
        open_here.remove(fault)


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
                revoked_ids = await in_thread(partial(_look_at, list(open_now.values()), used_ids))
            except Exception as error:  # noqa: BLE001 (what is open stays open until it can be read again)
                log_failure(log, "connections.look_failed", error)
                self._used_ids |= used_ids
                continue
            for fault, revocation in zip(open_now, revoked_ids, strict=True):
                if revocation is not None and not fault.done():
                    fault.set_result(revocation)


_open: WeakKeyDictionary[asyncio.AbstractEventLoop, _OpenConnections] = WeakKeyDictionary()


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


async def in_thread(call: Callable[[], T]) -> T:
    """Run a short call of the database on a thread of the process's pool."""

    def run() -> T:
        close_old_connections()
        try:
            return call()
        finally:
            close_old_connections()

    return await sync_to_async(run, thread_sensitive=False)()
