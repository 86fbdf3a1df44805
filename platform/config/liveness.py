"""What is told of a web process before Django is asked: whether it may start, and that it lives."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress

from asgiref.typing import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope
from django.db import DatabaseError, connections

_PATH = "/healthz"
_BODY = json.dumps({"status": "ok"}).encode()
_HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(len(_BODY)).encode())]


def with_start_check(application: ASGI3Application, check: Callable[[], None]) -> ASGI3Application:
    """Return the application, which does not start where `check` raises SystemExit; the server prints what it says."""

    async def serve(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "lifespan":
            await application(scope, receive, send)
            return
        while (await receive())["type"] == "lifespan.startup":
            try:
                await asyncio.to_thread(_run_check, check)
            except SystemExit as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})

    return serve


def _run_check(check: Callable[[], None]) -> None:
    try:
        with suppress(DatabaseError):  # one that is away is told by /readyz
            check()
    finally:
        connections.close_all()


def with_liveness(application: ASGI3Application) -> ASGI3Application:
    """Return the application with an endpoint in front of it that says that the process lives.

    It needs no thread, only that messages are served: in Django it would wait behind the requests of busy minutes.
    """

    async def serve(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http" or scope["path"] != _PATH:
            await application(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS, "trailers": False})
        body = b"" if scope["method"] == "HEAD" else _BODY
        await send({"type": "http.response.body", "body": body, "more_body": False})

    return serve
