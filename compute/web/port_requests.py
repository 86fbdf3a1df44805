"""A request of a browser passed on to the server of a job, over a connection of its own, and the answer passed back."""

import asyncio
from collections.abc import AsyncIterator

import httpcore
from asgiref.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope

from compute.adapters.job_stream import JobStream
from compute.errors import ConnectionBroken
from compute.web.open_connections import OpenConnection
from compute.web.port_site import Headers, PortSite, status_for_browser, target_of


class Exchange:
    """One request and its answer. `has_begun`: a part of the answer was sent, so no other can be given."""

    def __init__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        self.has_begun = False
        self._receive, self._send = receive, send
        self._is_read = asyncio.Event()

    async def begin(self, status: int, headers: Headers) -> None:
        """Send the status and the headers of the answer."""
        self.has_begun = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers, "trailers": False})

    async def go_on(self, data: bytes, *, is_end: bool = False) -> None:
        """Send a part of the answer's body."""
        await self._send({"type": "http.response.body", "body": data, "more_body": not is_end})

    async def pass_on(self, scope: HTTPScope, site: PortSite, connection: OpenConnection) -> None:
        """Ask the server of the job, and answer what it answers. Raises ConnectionBroken."""
        headers = site.headers_for_job(scope)
        has_length = any(name == b"content-length" for name, _ in headers)
        has_body = has_length or any(name == b"transfer-encoding" for name, _ in scope["headers"])
        if has_body and not has_length:
            headers.append((b"transfer-encoding", b"chunked"))
        if not has_body:
            self._is_read.set()
        request = httpcore.Request(
            scope["method"],
            httpcore.URL(scheme=b"http", host=b"localhost", port=site.port, target=target_of(scope)),
            headers=[*headers, (b"connection", b"close")],
            content=self._body() if has_body else b"",
        )
        try:
            async with httpcore.AsyncHTTP11Connection(request.url.origin, JobStream(connection)) as http:
                response = await http.handle_async_request(request)
                try:
                    await self.begin(status_for_browser(response.status), site.headers_for_browser(response.headers))
                    async for data in response.aiter_stream():
                        await self.go_on(data)
                finally:
                    await response.aclose()
            await self.go_on(b"", is_end=True)
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise ConnectionBroken(f"Port {site.port} of the job sent no answer that a browser can read.") from error

    async def wait_until_left(self) -> None:
        """Return when the browser waits for the answer no more, as it does for one that never ends."""
        await self._is_read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _body(self) -> AsyncIterator[bytes]:
        has_more = True
        while has_more:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ConnectionBroken("The browser is gone.")
            has_more = message.get("more_body", False)
            if data := message.get("body", b""):
                yield data
        self._is_read.set()
