"""What a web process checks before it serves, told to the ASGI server by its lifespan messages."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from asgiref.typing import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope
from django.db import DatabaseError, connections


def with_start_check(application: ASGI3Application, check: Callable[[], None]) -> ASGI3Application:
    """Return the application, which does not start where `check` raises SystemExit; the server prints what it says."""

    async def serve(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "lifespan":
            await application(scope, receive, send)
            return
        while (await receive())["type"] == "lifespan.startup":
            try:
                await asyncio.to_thread(_run, check)
            except SystemExit as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})

    return serve


def _run(check: Callable[[], None]) -> None:
    try:
        with suppress(DatabaseError):  # one that is away is told by /readyz
            check()
    finally:
        connections.close_all()
