"""Connections to the ports of jobs on this machine. Jobs share its network, so each port is checked to be the job's.

Otherwise whoever may reach a job would reach all that listens on this machine, such as a database or another job.
"""

import asyncio
import socket
import struct
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from compute.errors import ConnectionBroken, PortNotOpen

_TABLES = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (compared with, not bound to)
_LISTENS = "0A"
_CONNECT_S = 5.0
_READ_BYTES = 1 << 16


@dataclass(frozen=True)
class Listener:
    """A socket that listens. `inode` is what tells it from all others."""

    address: str
    inode: int

    @property
    def target(self) -> str:
        """The address by which this machine reaches it."""
        return _ANY.get(self.address, self.address)


class TcpConnection:
    """A TCP connection as the port `Connection` has it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def receive(self) -> bytes:
        """Return what comes next."""
        try:
            return await self._reader.read(_READ_BYTES)
        except OSError as error:
            raise ConnectionBroken(f"The job ended the connection: {error.strerror or error}.") from error

    async def send(self, data: bytes) -> None:
        """Send some bytes."""
        with suppress(OSError):
            self._writer.write(data)
            await self._writer.drain()

    async def end_sending(self) -> None:
        """Close this direction."""
        with suppress(OSError):
            self._writer.write_eof()

    async def close(self) -> None:
        """Close both directions."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


async def connect(pids: Collection[int], port: int) -> TcpConnection:
    """Connect to a port on which one of these processes listens, and nobody else. Raises PortNotOpen."""
    listener = await asyncio.to_thread(_find_own, pids, port)
    try:
        async with asyncio.timeout(_CONNECT_S):
            connection = TcpConnection(*await asyncio.open_connection(listener.target, port))
    except (OSError, TimeoutError) as error:
        raise PortNotOpen(f"Nothing takes connections on port {port} of the job.") from error
    # Somebody else may have taken the port over meanwhile.
    try:
        is_same = await asyncio.to_thread(_find_own, pids, port) == listener
    except PortNotOpen:
        is_same = False
    if not is_same:
        await connection.close()
        raise PortNotOpen(f"Nothing listens on port {port} of the job any more.")
    return connection


def _find_own(pids: Collection[int], port: int) -> Listener:
    listeners = list(_listeners(port))
    own = _socket_inodes(pids) if listeners else set()
    for listener in listeners:
        rivals = [other for other in listeners if other.inode not in own and _may_answer(other, listener)]
        if listener.inode in own and not rivals:
            return listener
    raise PortNotOpen(f"Nothing listens on port {port} of the job.")


def _may_answer(other: Listener, listener: Listener) -> bool:
    """Whether a connection to one listener may be taken by another one."""
    return other.address in _ANY or listener.address in _ANY or other.address == listener.address


def _listeners(port: int) -> Iterator[Listener]:
    for family, table in _TABLES.items():
        with suppress(FileNotFoundError):  # a machine without IPv6
            for line in table.read_text().splitlines()[1:]:
                fields = line.split()
                address, _, number = fields[1].partition(":")
                if fields[3] == _LISTENS and int(number, 16) == port:
                    yield Listener(_read_address(family, address), int(fields[9]))


def _read_address(family: socket.AddressFamily, text: str) -> str:
    """Return an address that the kernel printed as words of its own byte order."""
    words = (int(text[start : start + 8], 16) for start in range(0, len(text), 8))
    return socket.inet_ntop(family, b"".join(struct.pack("=I", word) for word in words))


def _socket_inodes(pids: Iterable[int]) -> set[int]:
    inodes = set()
    for pid in pids:
        with suppress(OSError):  # it has ended
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    target = str(link.readlink())
                    if target.startswith("socket:["):
                        inodes.add(int(target[8:-1]))
    return inodes
