"""The answer that the process lives, given before Django: there it would wait behind the requests of busy minutes."""

import json

from asgiref.typing import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope

_PATH = "/healthz"
_BODY = json.dumps({"status": "ok"}).encode()
_HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(len(_BODY)).encode())]


def with_liveness(application: ASGI3Application) -> ASGI3Application:
    """Return the application with this endpoint in front of it. It needs no thread, only that messages are served."""

    async def serve(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http" or scope["path"] != _PATH:
            await application(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS, "trailers": False})
        body = b"" if scope["method"] == "HEAD" else _BODY
        await send({"type": "http.response.body", "body": body, "more_body": False})

    return serve
