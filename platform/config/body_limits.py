"""How large the body of a request may be, watched before Django: it writes each to disk before anything is checked.

The largest is a part of a browser's upload. Archives of outputs have no limit; their senders show a token of ours.
"""

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
