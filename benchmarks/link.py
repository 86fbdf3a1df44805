"""A link of a declared bandwidth before a server on loopback, as a WAN before a store."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator

_PIECE_BYTES = 1 << 15


class _Link:
    """Passes connections on to `port`. What all of them receive together takes as long as it would over the link."""

    def __init__(self, port: int, bytes_per_s: float) -> None:
        self._port = port
        self._bytes_per_s = bytes_per_s
        self._free_at = 0.0

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection to its end."""
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(
            self._carry(reader, far_writer, is_limited=False), self._carry(far_reader, writer, is_limited=True)
        )

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_limited: bool) -> None:
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(_PIECE_BYTES):
                if is_limited:
                    now = time.monotonic()
                    self._free_at = max(self._free_at, now) + len(piece) / self._bytes_per_s
                    await asyncio.sleep(self._free_at - now)
                writer.write(piece)
                await writer.drain()
        writer.close()


@contextlib.contextmanager
def limited(port: int, bytes_per_s: float) -> Iterator[int]:
    """Yield a port that leads to `port`; what comes from there comes at this rate at most, shared by all connections."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="link", daemon=True)
    thread.start()
    link = _Link(port, bytes_per_s)
    serve = asyncio.start_server(link.connect, "127.0.0.1", 0)
    server = asyncio.run_coroutine_threadsafe(serve, loop).result()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
