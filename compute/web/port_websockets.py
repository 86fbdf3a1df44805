"""A WebSocket of a browser passed on to the server of a job, message by message."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from asgiref.typing import ASGIReceiveCallable, ASGISendCallable, WebSocketScope
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.typing import Origin, Subprotocol

from compute.errors import ConnectionBroken
from compute.web.open_connections import OpenConnection
from compute.web.port_site import PortSite, target_of

_CHUNK = 1 << 16
_HANDSHAKE_S = 30.0
# A message is in memory whole. That of a cell with a large picture has some megabytes.
_MOST_MESSAGE_BYTES = 32 << 20
_DONE, _LEAST_OWN_CODE = 1000, 3000
# The library sends these itself.
_OF_HANDSHAKE = ("sec-websocket-", "host", "origin", "user-agent", "content-length")


class WebSocketExchange:
    """A WebSocket on both sides. Once it is over, `code` says how the job ended it."""

    def __init__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        self.code = _DONE
        self._receive, self._send = receive, send
        self._has_left = False

    async def pass_on(self, scope: WebSocketScope, site: PortSite, connection: OpenConnection) -> None:
        """Accept if the job's server does, and carry messages until one side has ended. Raises ConnectionBroken."""
        async with _at_job(scope, site, connection) as job:
            await self._send({"type": "websocket.accept", "subprotocol": job.subprotocol, "headers": []})
            await connection.run(self._to_job(job), self._from_job(job))
        self.code = _sendable(job.close_code)

    async def close(self, code: int) -> None:
        """End it, or refuse it where it was not accepted; without effect where the browser has left."""
        if not self._has_left:
            with suppress(OSError):  # it leaves at this moment
                await self._send({"type": "websocket.close", "code": code, "reason": ""})

    async def _to_job(self, job: ClientConnection) -> None:
        with suppress(ConnectionClosed):
            while (message := await self._receive())["type"] == "websocket.receive":
                text = message.get("text")
                await job.send(message.get("bytes") or b"" if text is None else text)
            self._has_left = True
            await job.close()

    async def _from_job(self, job: ClientConnection) -> None:
        try:
            async for data in job:
                text, data_bytes = (data, None) if isinstance(data, str) else (None, data)
                await self._send({"type": "websocket.send", "text": text, "bytes": data_bytes})
        except OSError:  # what ASGI servers raise when the browser is gone
            self._has_left = True
        except ConnectionClosed:
            return


@asynccontextmanager
async def _at_job(scope: WebSocketScope, site: PortSite, connection: OpenConnection) -> AsyncIterator[ClientConnection]:
    """Shake hands with the job's server. The library wants a socket, so it gets one end of a pair."""
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in site.headers_for_job(scope)]
    agent = dict(headers).get("user-agent")
    ours, theirs = socket.socketpair()
    carrying = asyncio.ensure_future(_carry(theirs, connection))
    try:
        async with connect(
            site.local.replace("http", "ws", 1) + target_of(scope).decode("latin-1"),
            sock=ours,
            origin=Origin(site.local),
            subprotocols=[Subprotocol(name) for name in scope["subprotocols"]] or None,
            additional_headers=[pair for pair in headers if not pair[0].startswith(_OF_HANDSHAKE)],
            user_agent_header=agent,
            compression=None,
            proxy=None,
            max_size=_MOST_MESSAGE_BYTES,
            ping_interval=None,
            open_timeout=_HANDSHAKE_S,
        ) as job:
            yield job
    # A redirect is a ValueError, as no other socket is at hand.
    except (WebSocketException, TimeoutError, ValueError, EOFError) as error:
        raise ConnectionBroken(f"Port {site.port} of the job takes no WebSocket at this address.") from error
    finally:
        carrying.cancel()
        await asyncio.gather(carrying, return_exceptions=True)
        ours.close()


async def _carry(end: socket.socket, connection: OpenConnection) -> None:
    """Carry bytes between a socket and a connection until either has ended, and close the socket."""
    reader, writer = await asyncio.open_connection(sock=end)

    async def inwards() -> None:
        while data := await reader.read(_CHUNK):
            await connection.send(data)

    async def outwards() -> None:
        while data := await connection.receive():
            writer.write(data)
            await writer.drain()

    try:
        await connection.run(inwards(), outwards())
    finally:
        writer.close()


def _sendable(code: int | None) -> int:
    """Return a code that may be sent: the usual one for what only says that there was none."""
    return code if code is not None and (code == _DONE or code >= _LEAST_OWN_CODE) else _DONE
