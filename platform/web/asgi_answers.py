"""Whole answers of those who serve before Django."""

from asgiref.typing import ASGISendCallable
from django.http import HttpResponse


async def send_response(response: HttpResponse, send: ASGISendCallable, *, is_last: bool = False) -> None:
    """Send an answer. After the last one its connection ends, and what else is on its way is not read."""
    headers = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    headers.append((b"content-length", str(len(response.content)).encode()))
    if is_last:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers, "trailers": False})
    await send({"type": "http.response.body", "body": response.content, "more_body": False})
