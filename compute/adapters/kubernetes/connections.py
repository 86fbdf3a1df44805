"""Connections to ports of pods and to commands in them, as the ports `Connection` and `Terminal` have them."""

from compute.errors import ConnectionBroken, PortNotOpen
from core.kubernetes.errors import ClusterUnreachable
from core.kubernetes.streams import PortNotServed, PortStream, TerminalStream


class PodConnection:
    """A connection to a port of a pod, carried by the cluster."""

    def __init__(self, stream: PortStream, port: int) -> None:
        self._stream, self._port = stream, port

    async def receive(self) -> bytes:
        """Return what comes next. Raises PortNotOpen, which a cluster tells only here."""
        try:
            return await self._stream.receive()
        except PortNotServed as error:
            if "refused" in str(error):
                raise PortNotOpen(f"Nothing listens on port {self._port} of the job.") from error
            raise ConnectionBroken(f"The job's node ended the connection: {error}") from error
        except ClusterUnreachable as error:
            raise ConnectionBroken(error.message) from error

    async def send(self, data: bytes) -> None:
        """Send some bytes."""
        await self._stream.send(data)

    async def end_sending(self) -> None:
        """Do nothing: a cluster cannot be told. The job learns it when the connection is closed."""

    async def close(self) -> None:
        """End it."""
        await self._stream.close()


class PodTerminal:
    """A command in a terminal in a pod, carried by the cluster."""

    def __init__(self, stream: TerminalStream) -> None:
        self._stream = stream
        self.send, self.resize, self.close = stream.send, stream.resize, stream.close

    @property
    def exit_code(self) -> int | None:
        """How the command has ended."""
        return self._stream.exit_code

    async def receive(self) -> bytes:
        """Return what the command prints next."""
        try:
            return await self._stream.receive()
        except ClusterUnreachable as error:
            raise ConnectionBroken(error.message) from error

    async def end_sending(self) -> None:
        """Do nothing: a terminal stays open in both directions."""
