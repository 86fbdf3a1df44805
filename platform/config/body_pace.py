"""How slowly a body may come: whoever sends next to nothing of it for long is cut off, whatever else waits for it."""

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

from web.problems import problem, send_response

LEAST_BYTES: Final = 16 << 10
WITHIN_S: Final = 120.0
"""So long it may be waited for so many bytes. Time in which the application takes none does not count."""
_NAMES: Final = {b"content-length", b"transfer-encoding"}


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
