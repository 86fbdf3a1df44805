"""A link of a declared bandwidth or round trip before a server on loopback, as a WAN before a store.

It is a process of its own, so what it costs is not counted as the client's.
"""

import asyncio
import contextlib
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection

_PIECE_BYTES = 1 << 18
_PIECES_UNDER_WAY = 64


@dataclass
class _Link:
    """Passes connections on to `port`. What all of them receive together takes as long as it would over the link."""

    port: int
    bytes_per_s: float
    delay_s: float
    _free_at: float = 0.0

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection to its end."""
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.port)
        await asyncio.gather(
            self._carry(reader, far_writer, is_limited=False), self._carry(far_reader, writer, is_limited=True)
        )

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_limited: bool) -> None:
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_PIECES_UNDER_WAY)

        async def read() -> None:
            with contextlib.suppress(ConnectionError):
                while piece := await reader.read(_PIECE_BYTES):
                    if is_limited:
                        await self._take_turn(len(piece))
                    await pieces.put((time.monotonic() + self.delay_s, piece))
            await pieces.put((time.monotonic() + self.delay_s, b""))

        reading = asyncio.create_task(read())
        with contextlib.suppress(ConnectionError):
            while (row := await pieces.get())[1]:
                await asyncio.sleep(row[0] - time.monotonic())
                writer.write(row[1])
                await writer.drain()
        reading.cancel()
        writer.close()

    async def _take_turn(self, size_bytes: int) -> None:
        now = time.monotonic()
        self._free_at = max(self._free_at, now) + size_bytes / self.bytes_per_s
        await asyncio.sleep(self._free_at - now)


@contextlib.contextmanager
def link(port: int, *, bytes_per_s: float = float("inf"), round_trip_s: float = 0.0) -> Iterator[int]:
    """Yield a port that leads to `port`, half a round trip each way.

    What comes from there comes at this rate at most, shared by all connections.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(_Link(port, bytes_per_s, round_trip_s / 2), there), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        process.terminate()
        process.join()


def _serve(way: _Link, there: Connection) -> None:
    async def serve() -> None:
        server = await asyncio.start_server(way.connect, "127.0.0.1", 0, limit=_PIECE_BYTES)
        there.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())
