"""The endpoint of folder stores: carries out signed requests, as an S3 server would. Their holders need no sign-in.

Where the server speaks ASGI, signed PUTs are taken off before Django, which would first spool each body to disk. So the
signature is checked before the first byte of the body is asked for, every byte is written once, and the next piece
arrives while the last one is hashed. Everything else, and every other server, goes by the view.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from asgiref.sync import sync_to_async
from asgiref.typing import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, HTTPScope, Scope
from django.db import connections
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from core import streaming
from core.errors import PlatformError
from datasets.adapters.folder import GrowingFile
from datasets.workers import store_requests
from web import problems
from web.problems import send_response

T = TypeVar("T")

_PREFIX: Final = "/store/"
_CHUNK: Final = 1024 * 1024


@csrf_exempt  # the signature in the address is the proof of right, and browsers never send it by themselves
@require_http_methods(["GET", "PUT"])
def store_object(request: HttpRequest, signed: str) -> HttpResponseBase:
    """Store the body (PUT) or answer with the object or a part of it (GET)."""
    return _put(request, signed) if request.method == "PUT" else _get(request, signed)


def _put(request: HttpRequest, signed: str) -> HttpResponse:
    length = request.headers.get("Content-Length", "")
    growing = store_requests.open_signed(signed=signed, content_length=int(length) if length.isdecimal() else None)
    try:
        while chunk := request.read(_CHUNK):
            growing.write(chunk)
        growing.finish()
    finally:
        growing.discard()
    return HttpResponse(status=200)


def _get(request: HttpRequest, signed: str) -> HttpResponseBase:
    grant = store_requests.find_signed(signed=signed)
    try:
        span = streaming.parse_range(request.headers.get("Range", ""), grant.size_bytes)
    except ValueError:
        return HttpResponse(status=416, headers={"Content-Range": f"bytes */{grant.size_bytes}"})
    first, size = span or (0, grant.size_bytes)
    response = streaming.stream(
        request,
        grant.read(first, size),
        status=200 if span is None else 206,
        content_type="application/octet-stream",
    )
    response["Content-Length"] = str(size)
    response["Accept-Ranges"] = "bytes"
    if span is not None:
        response["Content-Range"] = f"bytes {first}-{first + size - 1}/{grant.size_bytes}"
    return response


def with_store_door(application: ASGI3Application) -> ASGI3Application:
    """Return the application with this endpoint in front of it."""

    async def serve(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] == "http" and scope["method"] == "PUT" and scope["path"].startswith(_PREFIX):
            try:
                await _store(scope, receive)
                response = HttpResponse(status=200)
            except PlatformError as error:
                response = problems.problem_of(error)
            await send_response(response, send)
        else:
            await application(scope, receive, send)

    return serve


async def _store(scope: HTTPScope, receive: ASGIReceiveCallable) -> None:
    lengths = [value.decode("latin-1") for name, value in scope["headers"] if name == b"content-length"]
    length = int(lengths[0]) if lengths and lengths[0].isdecimal() else None
    growing = await _in_thread(lambda: _open(scope["path"].removeprefix(_PREFIX), length))
    try:
        await _take_body(growing, receive)
        await _in_thread(growing.finish)
    finally:
        await _in_thread(growing.discard)


async def _take_body(growing: GrowingFile, receive: ASGIReceiveCallable) -> None:
    writing: asyncio.Future[None] | None = None
    waiting = bytearray()
    has_more = True
    try:
        while has_more:
            message = await receive()
            if message["type"] != "http.request":
                return  # the client went away; `finish` will find that bytes are missing
            waiting += message.get("body", b"")
            has_more = message.get("more_body", False)
            if waiting and (len(waiting) >= _CHUNK or not has_more):
                if writing is not None:
                    await writing
                piece, waiting = waiting, bytearray()
                writing = asyncio.ensure_future(_in_thread(partial(growing.write, piece)))
    finally:
        if writing is not None:
            await writing


def _open(signed: str, length: int | None) -> GrowingFile:
    try:
        return store_requests.open_signed(signed=signed, content_length=length)
    finally:
        # No request of Django's ends here, after which it would look after this thread's connection.
        connections.close_all()


async def _in_thread(call: Callable[[], T]) -> T:
    return await sync_to_async(call, thread_sensitive=False)()
