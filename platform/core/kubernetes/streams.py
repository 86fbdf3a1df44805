"""Two-way streams into a pod, over WebSockets of the API: a port of it, or a command in a terminal.

Each message of those begins with the number of its channel.
"""

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from core.kubernetes.commands import end_of
from core.kubernetes.errors import ClusterUnreachable

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

PORT_PROTOCOLS = ("v4.channel.k8s.io",)
_DATA, _ERROR = 0, 1
_STDIN, _STDOUT, _STATUS, _RESIZE = 0, 1, 3, 4


class PortNotServed(Exception):
    """The node could not connect to the port, or the connection broke there. The text is the node's."""


class _Stream:
    """What both kinds share. Every method may raise ClusterUnreachable."""

    def __init__(self, socket: "ClientConnection") -> None:
        self._socket = socket

    async def close(self) -> None:
        """End the stream."""
        with suppress(OSError):
            await self._socket.close()

    async def _receive(self) -> tuple[int, bytes] | None:
        """Return the next message and its channel; None: the cluster has ended the stream."""
        from websockets.exceptions import ConnectionClosed, ConnectionClosedOK  # noqa: PLC0415 (with the socket)

        while True:
            try:
                message = await self._socket.recv()
            except ConnectionClosedOK:
                return None
            except ConnectionClosed as error:
                raise ClusterUnreachable(f"The connection to the pod broke: {error}") from error
            if isinstance(message, bytes) and message:
                return message[0], message[1:]

    async def _send(self, channel: int, data: bytes) -> None:
        """Send a message, unless the stream has ended."""
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415 (with the socket)

        with suppress(ConnectionClosed):
            await self._socket.send(bytes([channel]) + data)


class PortStream(_Stream):
    """A connection to a port of a pod.

    The protocol cannot tell the pod that nothing more is sent: it learns that when the stream is closed.
    """

    def __init__(self, socket: "ClientConnection") -> None:
        super().__init__(socket)
        self._begun: set[int] = set()

    async def receive(self) -> bytes:
        """Return what comes next; empty: nothing more comes. Raises PortNotServed."""
        while (message := await self._receive()) is not None:
            channel, data = message
            if channel not in self._begun:  # each channel begins with the number of the port
                self._begun.add(channel)
            elif channel == _ERROR and data:
                raise PortNotServed(data.decode(errors="replace"))
            elif channel == _DATA and data:
                return data
        return b""

    async def send(self, data: bytes) -> None:
        """Send some bytes. Once the stream has ended they are dropped."""
        await self._send(_DATA, data)


class TerminalStream(_Stream):
    """A command in a terminal in a container. `exit_code` is known once `receive` has returned nothing."""

    exit_code: int | None = None

    async def receive(self) -> bytes:
        """Return what the command prints next; empty: it has ended."""
        while self.exit_code is None:
            message = await self._receive()
            if message is None:
                raise ClusterUnreachable("The cluster ended the connection to the command; its exit code is unknown.")
            channel, data = message
            if channel == _STDOUT and data:
                return data
            if channel == _STATUS:
                end = end_of(json.loads(data))
                self.exit_code = end.exit_code
                return end.data
        return b""

    async def send(self, data: bytes) -> None:
        """Type some bytes. Once the stream has ended they are dropped."""
        await self._send(_STDIN, data)

    async def resize(self, columns: int, rows: int) -> None:
        """Let the terminal have another size."""
        await self._send(_RESIZE, json.dumps({"Width": columns, "Height": rows}).encode())
