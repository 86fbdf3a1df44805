"""Turns: nobody's requests block those of others. Given before Django, which would begin a thread for each at once.

A request takes its turn when its body is there, and gives it back when its answer begins: neither a slow upload nor a
slow download keeps others from theirs. A caller has a few at work at once; those that wait are taken up in turn among
callers, and where too many of one wait, the next is refused. A request that takes long, as it waits for something else,
gives its turn back before: more of them may be at work at once, and they count for their caller alone.
"""

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from ipaddress import IPv6Address, IPv6Network
from typing import Final, Self

from asgiref.typing import (
    ASGI3Application,
    ASGIReceiveCallable,
    ASGIReceiveEvent,
    ASGISendCallable,
    ASGISendEvent,
    HTTPScope,
    Scope,
)
from django.conf import settings
from django.http import HttpRequest

from accounts import permissions
from core.errors import TooManyRequests
from web import error_pages
from web.problems import send_response

CALLERS_AT_ONCE: Final = 2
"""So many callers may have at work all that each may. With more of them, their requests take turns."""
LONG_S: Final = 0.5
"""A request that is at work for longer gives its turn back."""
MOST_LONG: Final = 32
"""The most long requests of a caller, and answers that it is being sent, but for event streams."""
LONGEST_WAIT_S: Final = 20.0
RETRY_AFTER_S: Final = 2
_MOST_KNOWN: Final = 10_000
_SENDER_BITS: Final = 64
_EVENTS: Final = b"text/event-stream"
_SESSION: Final = re.compile(rb"(?:^|; ?)%s=([^;]+)" % settings.SESSION_COOKIE_NAME.encode())


class _Caller:
    """What one caller has at work, and what waits."""

    __slots__ = ("is_next", "line", "long", "requests", "short")

    def __init__(self) -> None:
        self.requests = self.short = self.long = 0
        self.line: deque[asyncio.Future[Turn]] = deque()
        self.is_next = False


class Turn:
    """The turn of one request."""

    __slots__ = ("_caller", "_is_long", "_is_short", "_timer", "_turns")

    def __init__(self, turns: "Turns", caller: _Caller) -> None:
        self._turns, self._caller = turns, caller
        self._is_short, self._is_long = True, False
        caller.short += 1
        turns.short += 1
        self._timer = asyncio.get_running_loop().call_later(LONG_S, self.become_long)

    def become_long(self) -> None:
        """Give the turn back, though there is more to do. It may be repeated."""
        self._give_back(is_long=True)

    def give_back(self) -> None:
        """Give the turn back. It may be repeated."""
        self._give_back(is_long=False)

    def _give_back(self, *, is_long: bool) -> None:
        if not self._is_short and self._is_long == is_long:
            return
        self._timer.cancel()
        self._caller.short -= self._is_short
        self._turns.short -= self._is_short
        self._caller.long += is_long - self._is_long
        self._is_short, self._is_long = False, is_long
        self._turns.go_on(self._caller)


class Turns:
    """The turns of one event loop. `most_of_caller` requests of each are at work at once, and `most_waiting` wait."""

    def __init__(self, most_of_caller: int, most_waiting: int) -> None:
        self._most_of_caller, self._most_waiting = most_of_caller, most_waiting
        self._most = CALLERS_AT_ONCE * most_of_caller
        self.short = 0
        self._callers: dict[Hashable, _Caller] = {}
        self._next: deque[_Caller] = deque()  # who waits for nothing but that others end, each once

    @contextmanager
    def of(self, key: Hashable) -> Iterator[_Caller]:
        """Know a caller for as long as a request lasts. Raises TooManyRequests where it would not even wait."""
        caller = self._callers.get(key)
        if caller is None:
            caller = self._callers[key] = _Caller()
        self._check(caller)
        caller.requests += 1
        try:
            yield caller
        finally:
            caller.requests -= 1
            if not caller.requests:
                del self._callers[key]

    async def take(self, caller: _Caller, wait_until_left: Callable[[], Awaitable[object]]) -> Turn | None:
        """Wait for the turn of a request. None: its sender has left. Raises TooManyRequests."""
        self._check(caller)
        if self.short < self._most and not caller.line and self._may_begin(caller):
            return Turn(self, caller)
        place: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        caller.line.append(place)
        self.go_on(caller)
        left = asyncio.ensure_future(wait_until_left())
        try:
            await asyncio.wait((place, left), timeout=LONGEST_WAIT_S, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if place.done():
                place.result().give_back()
            raise
        finally:
            is_gone = left.done()
            left.cancel()
            if not place.done():
                caller.line.remove(place)
                self.go_on(caller)
        if place.done():
            return place.result()
        if is_gone:
            return None
        raise TooManyRequests(f"This request waited for {LONGEST_WAIT_S:.0f} s behind others.")

    def go_on(self, caller: _Caller) -> None:
        """Look at a caller of whom something has ended, or begun to wait."""
        self._put_in_turn(caller)
        self._take_up()

    def _take_up(self) -> None:
        while self._next and self.short < self._most:
            caller = self._next.popleft()
            caller.is_next = False
            if caller.line and self._may_begin(caller):
                caller.line.popleft().set_result(Turn(self, caller))
                self._put_in_turn(caller)

    def _put_in_turn(self, caller: _Caller) -> None:
        if caller.line and not caller.is_next and self._may_begin(caller):
            caller.is_next = True
            self._next.append(caller)

    def _check(self, caller: _Caller) -> None:
        if len(caller.line) >= self._most_waiting:
            raise TooManyRequests(f"{self._most_waiting} requests of yours wait already.")

    def _may_begin(self, caller: _Caller) -> bool:
        return caller.short < self._most_of_caller and caller.long < MOST_LONG


class _KnownCallers:
    """Who is behind a credential, once that was checked. Until then, and of who shows none, the address is the caller.

    So nobody gets more turns by credentials that they made up. No credential is kept: only its keyed hash.
    """

    def __init__(self) -> None:
        self._names: dict[int, Hashable] = {}

    def key_of(self, scope: HTTPScope) -> Hashable:
        """Return who sends a request; whoever checks its credential is listened to."""
        credential = _credential_of(scope)
        if credential is not None:
            permissions.listen_for_caller(partial(self._note, credential))
            if (name := self._names.get(credential)) is not None:
                return name
        client = scope.get("client")
        return _sender_at(client[0]) if client else ""

    def _note(self, credential: int, name: str) -> None:
        # Called on the thread that checked it.
        self._names[credential] = name or credential
        if len(self._names) > _MOST_KNOWN:
            with suppress(KeyError, RuntimeError, StopIteration):
                del self._names[next(iter(self._names))]


def with_turns(application: ASGI3Application, turns: Turns) -> ASGI3Application:
    """Return the application, which sees the end of a body when it is the turn of its request."""
    known = _KnownCallers()

    async def serve(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        try:
            with turns.of(known.key_of(scope)) as caller, _Request(turns, caller, receive, send) as request:
                await application(scope, request.receive, request.send)
        except TooManyRequests as error:
            await _refuse(scope, error, send)

    return serve


class _Request:
    """A request as the application sees it: as one whose sender left where it is refused."""

    def __init__(self, turns: Turns, caller: _Caller, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        self._turns, self._caller, self._receive, self._send = turns, caller, receive, send
        self._turn: Turn | None = None
        self._refusal: TooManyRequests | None = None
        self._is_events = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Give back what is left of its turn. Raises TooManyRequests where it got none."""
        if self._turn is not None:
            self._turn.give_back()
        if self._refusal is not None:
            raise self._refusal

    async def receive(self) -> ASGIReceiveEvent:
        """Return the next message, the end of the body when it is the turn of the request."""
        message = await self._receive()
        if self._turn is None and message["type"] == "http.request" and not message.get("more_body"):
            try:
                self._turn = await self._turns.take(self._caller, self._receive)
            except TooManyRequests as error:
                self._refusal = error
            if self._turn is None:
                return {"type": "http.disconnect"}
        return message

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message, and give the turn back with the first one."""
        if self._turn is not None:
            if message["type"] == "http.response.start":
                self._turn.give_back()
                self._is_events = any(value.startswith(_EVENTS) for _, value in message["headers"])
            elif not self._is_events:
                self._turn.become_long()
        await self._send(message)


def _sender_at(address: str) -> str:
    """Return who is behind an address: of IPv6 a network, as its holder may use any address in it."""
    if ":" not in address:
        return address
    known = IPv6Address(address.partition("%")[0])
    return str(known.ipv4_mapped or IPv6Network((known, _SENDER_BITS), strict=False))


def _credential_of(scope: HTTPScope) -> int | None:
    session = None
    for name, value in scope["headers"]:
        if name == b"authorization":
            return hash(value)
        if name == b"cookie" and (match := _SESSION.search(value)):
            session = hash(match[1])
    return session


async def _refuse(scope: HTTPScope, error: TooManyRequests, send: ASGISendCallable) -> None:
    request = HttpRequest()
    request.path_info = scope["path"]
    response = error_pages.refuse(request, error, HTTPStatus.TOO_MANY_REQUESTS)
    response["Retry-After"] = str(RETRY_AFTER_S)
    await send_response(response, send)
