"""Long answers of the web process: chunks go out as they are made, under ASGI and under Django's test client alike."""

import mimetypes
import re
from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def stream(request: HttpRequest, chunks: Iterator[bytes], **options: object) -> StreamingHttpResponse:
    """Return a response that sends `chunks`, each made on a worker thread when the server is asynchronous."""
    content = asynchronously(chunks) if isinstance(request, ASGIRequest) else chunks
    return StreamingHttpResponse(content, **options)


async def asynchronously(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield `chunks`, each made on a worker thread, as an asynchronous server wants them."""
    take = sync_to_async(lambda: next(chunks, None), thread_sensitive=False)
    while (chunk := await take()) is not None:
        yield chunk


def picture_type(name: str) -> str | None:
    """Return the media type of a file that a browser may show: a plain picture, by its name. None: only to be saved.

    A type that can hold a script is never returned, so no file runs a script on our pages.
    """
    kind = mimetypes.guess_type(name)[0]
    return kind if kind in _PICTURES else None


def parse_range(header: str, size_bytes: int) -> tuple[int, int] | None:
    """Return the first byte and the number of bytes that a Range header asks for; None when it means the whole.

    Several ranges at once mean the whole. Raises ValueError when no byte of it exists.
    """
    match = _RANGE.fullmatch(header.strip())
    if match is None or match[0] == "bytes=-":
        return None
    first_text, last_text = match.groups()
    if not first_text:
        first, last = max(0, size_bytes - int(last_text)), size_bytes - 1
    else:
        first, last = int(first_text), min(int(last_text or size_bytes), size_bytes - 1)
    if last < first:
        raise ValueError(header)
    return first, last - first + 1
