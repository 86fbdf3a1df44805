"""Two-way streams into a pod, over WebSockets of the API: a port of it.

Each message of those begins with the number of its channel.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from core.kubernetes.errors import ClusterUnreachable

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

PORT_PROTOCOLS = ("v4.channel.k8s.io",)
_DATA, _ERROR = 0, 1


class PortNotServed(Exception):
    """The node could not connect to the port, or the connection broke there. The text is the node's."""


class PortStream:
    """A connection to a port of a pod.

    The protocol cannot tell the pod that nothing more is sent: it learns that when the stream is closed.
    """

    def __init__(self, socket: "ClientConnection") -> None:
        self._socket = socket
        self._begun: set[int] = set()

    async def receive(self) -> bytes:
        """Return what comes next; empty: nothing more comes. Raises PortNotServed and ClusterUnreachable."""
        from websockets.exceptions import ConnectionClosed, ConnectionClosedOK  # noqa: PLC0415 (with the socket)

        while True:
            try:
                message = await self._socket.recv()
            except ConnectionClosedOK:
                return b""
            except ConnectionClosed as error:
                raise ClusterUnreachable(f"The connection to the pod broke: {error}") from error
            if not isinstance(message, bytes) or not message:
                continue
            channel, data = message[0], message[1:]
            if channel not in self._begun:  # each channel begins with the number of the port
                self._begun.add(channel)
            elif channel == _ERROR and data:
                raise PortNotServed(data.decode(errors="replace"))
            elif channel == _DATA and data:
                return data

    async def send(self, data: bytes) -> None:
        """Send some bytes. Once the stream has ended they are dropped."""
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415 (with the socket)

        with suppress(ConnectionClosed):
            await self._socket.send(bytes([_DATA]) + data)

    async def close(self) -> None:
        """End the stream."""
        with suppress(OSError):
            await self._socket.close()
