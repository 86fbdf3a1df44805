"""Connections into jobs for an HTTP client."""

import httpcore

from compute.engine.ports import Connection


class JobStream(httpcore.AsyncNetworkStream):
    """A connection into a job as httpcore reads and writes it. How long to wait is the browser's to decide."""

    def __init__(self, connection: Connection) -> None:
        """Take an open connection."""
        self._connection = connection

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002, ASYNC109 (httpcore's)
        """Return what comes next."""
        return await self._connection.receive()

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109 (httpcore's)
        """Send some bytes."""
        if buffer:
            await self._connection.send(buffer)

    async def aclose(self) -> None:
        """End the connection."""
        await self._connection.close()

    def get_extra_info(self, info: str) -> None:  # noqa: ARG002 (httpcore's)
        """Tell nothing of the transport."""
        return
