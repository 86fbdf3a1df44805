"""How large the body of a request may be, and how slowly it may come, watched before Django.

Django writes each body to disk before anything is checked. The largest is a part of a browser's upload. Archives of
outputs have no limit; their senders show a token of ours. Whoever sends next to nothing for long is cut off, whatever
else waits for it.
"""

import asyncio
from http import HTTPStatus
from typing import Final

from asgiref.typing import (
    ASGI3Application,
    ASGIReceiveCallable,
    ASGIReceiveEvent,
    ASGISendCallable,
    ASGISendEvent,
    HTTPScope,
    Scope,
)

from compute.adapters.job_tokens import read_attempt
from web.problems import problem, send_response

_ARCHIVES = "/api/v1/attempt/output"
MOST_BYTES = 65 << 20
"""32 MiB of content, as much that describes it, and a rest."""
LEAST_BYTES: Final = 16 << 10
WITHIN_S: Final = 120.0
"""So long it may be waited for so many bytes. Time in which the application takes none does not count."""
_NAMES: Final = {b"content-length", b"transfer-encoding"}
_HINT = "Send it in parts."


def with_body_limit(application: ASGI3Application) -> ASGI3Application:
    """Return the application, which sees of a body that is too large only that its sender has left."""

    async def serve(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http" or _is_of_pod(scope):
            await application(scope, receive, send)
            return
        body_bytes, has_begun = 0, False

        async def receive_some() -> ASGIReceiveEvent:
            nonlocal body_bytes
            message = await receive()
            if message["type"] == "http.request":
                body_bytes += len(message.get("body", b""))
                if body_bytes > MOST_BYTES:
                    return {"type": "http.disconnect"}
            return message

        async def note_begin(message: ASGISendEvent) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        if _length_of(scope) <= MOST_BYTES:
            await application(scope, receive_some, note_begin)
        else:
            body_bytes = MOST_BYTES + 1
        if body_bytes > MOST_BYTES and not has_begun:
            await _refuse(send)

    return serve


def _is_of_pod(scope: HTTPScope) -> bool:
    """Whether this is the output of a job, with a token that we signed for a run; what that may do is checked later."""
    if scope["path"] != _ARCHIVES:
        return False
    values = [value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"]
    scheme, _, secret = "".join(values[:1]).partition(" ")
    return scheme.lower() == "bearer" and read_attempt(secret.strip()) is not None


def _length_of(scope: HTTPScope) -> int:
    """Return how long the body is to be; 0 where its sender does not say."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(lengths[0]) if lengths and lengths[0].isdigit() else 0


async def _refuse(send: ASGISendCallable) -> None:
    title = f"The body is larger than {MOST_BYTES} bytes."
    await send_response(problem(413, "core.body_too_large", title, _HINT, {}), send, is_last=True)


def with_body_pace(application: ASGI3Application) -> ASGI3Application:
    """Return the application, which sees of a body that comes too slowly that its sender has left."""

    async def serve(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http" or not _has_body(scope):
            await application(scope, receive, send)
            return
        body = _Body(receive, send)
        await application(scope, body.receive, body.send)
        if body.is_late and not body.is_answered:
            title = f"Less than {LEAST_BYTES} bytes of the body came within {WITHIN_S:.0f} seconds."
            answer = problem(HTTPStatus.REQUEST_TIMEOUT, "core.body_too_slow", title, "Send it again.", {})
            await send_response(answer, send, is_last=True)

    return serve


class _Body:
    """The body of a request as the application sees it."""

    def __init__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        self._receive, self._send = receive, send
        self._has_more = True
        self._left_bytes, self._left_s = LEAST_BYTES, WITHIN_S
        self.is_late = self.is_answered = False

    async def receive(self) -> ASGIReceiveEvent:
        """Return the next message."""
        if not self._has_more:
            return await self._receive()
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        try:
            async with asyncio.timeout(self._left_s):
                message = await self._receive()
        except TimeoutError:
            self.is_late = True
            return {"type": "http.disconnect"}
        self._has_more = message["type"] == "http.request" and message.get("more_body", False)
        if self._has_more and message["type"] == "http.request":
            self._left_s -= loop.time() - began_at
            self._left_bytes -= len(message["body"])
            if self._left_bytes <= 0:
                self._left_bytes, self._left_s = LEAST_BYTES, WITHIN_S
        return message

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message."""
        self.is_answered = True
        await self._send(message)


def _has_body(scope: HTTPScope) -> bool:
    return any(name in _NAMES and value != b"0" for name, value in scope["headers"])
