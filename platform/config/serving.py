"""How a web process listens, and which connections it keeps: nobody can take all of them.

Whoever sends no whole head of a request in time is cut off. Where the process has as many connections as it may, so is
whoever has kept it waiting the longest for a head; where it waits for none, for a body.
"""

import asyncio
import errno
import resource
import socket
from collections import OrderedDict
from typing import Any, Final, Literal, cast
from weakref import WeakKeyDictionary

import h11
import uvicorn
from django.core.management.base import CommandError
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

HEAD_S: Final = 20.0
"""So long may the first line and the headers of a request be on their way."""
_MOST_FILES: Final = 65_536
_BACKLOG: Final = 2048
_SLOWEST_S: Final = 900.0
_LARGEST_MESSAGE_BYTES: Final = 1 << 20


class Connection(H11Protocol):
    """A connection that counts among those of its server."""

    _all: "Connections"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count it in."""
        super().connection_made(cast("asyncio.Transport", transport))
        self._all = _connections_of(self.server_state)
        self._all.add(self)

    def data_received(self, data: bytes) -> None:
        """Take what has come, and note what is to come of a request."""
        super().data_received(data)
        self._all.note(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Forget it."""
        self._all.forget(self)
        super().connection_lost(error)

    @property
    def awaits_head(self) -> bool:
        """Whether the first line and the headers of a request are to come."""
        return self.conn.their_state is h11.IDLE

    @property
    def awaits_body(self) -> bool:
        """Whether the rest of a body is to come."""
        return self.conn.their_state is h11.SEND_BODY


class Connections:
    """The connections of a server: from which something is to come, the one that waits longest first."""

    def __init__(self, server: ServerState) -> None:
        self._all, self._most = server.connections, most_connections()
        self._loop = asyncio.get_running_loop()
        self._heads: OrderedDict[Connection, float] = OrderedDict()  # with the times at which they have to be there
        self._bodies: OrderedDict[Connection, None] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, connection: Connection) -> None:
        """Count a new connection in, and cut off another where there are too many."""
        self.note(connection)
        if len(self._all) > self._most:
            waiting = self._bodies if self._bodies and len(self._heads) == 1 else self._heads
            oldest, _ = waiting.popitem(last=False)
            oldest.transport.abort()

    def note(self, connection: Connection) -> None:
        """Note what is to come on a connection. Repeated, the first time counts."""
        if connection.awaits_head:
            self._bodies.pop(connection, None)
            if connection not in self._heads:
                self._heads[connection] = self._loop.time() + HEAD_S
                if self._timer is None:
                    self._timer = self._loop.call_later(HEAD_S, self._cut_off)
        elif connection.awaits_body:
            self._heads.pop(connection, None)
            self._bodies.setdefault(connection)
        else:
            self.forget(connection)

    def forget(self, connection: Connection) -> None:
        """Wait for nothing more on a connection."""
        self._heads.pop(connection, None)
        self._bodies.pop(connection, None)

    def _cut_off(self) -> None:
        self._timer = None
        while self._heads:
            oldest, ends_at = next(iter(self._heads.items()))
            if ends_at > self._loop.time():
                self._timer = self._loop.call_at(ends_at, self._cut_off)
                return
            del self._heads[oldest]
            oldest.transport.abort()


_servers: WeakKeyDictionary[ServerState, Connections] = WeakKeyDictionary()


def _connections_of(server: ServerState) -> Connections:
    if (connections := _servers.get(server)) is None:
        connections = _servers[server] = Connections(server)
    return connections


def allow_many_files() -> None:
    """Let the process open as many files as the system allows it; the usual limit is meant for old programs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def most_connections() -> int:
    """Return how many connections leave enough of what the process may open for all else that it does."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (_MOST_FILES if soft == resource.RLIM_INFINITY else min(soft, _MOST_FILES)) * 3 // 4


def listen(address: str, port: int) -> socket.socket:
    """Take an address. Raises CommandError in one sentence."""
    # With the protocol named, asyncio switches off Nagle's algorithm for each connection. Else every answer on a
    # connection that is kept open would wait some 40 ms for the client's delayed acknowledgement.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CommandError(
                f"Port {port} is in use on {address}. Choose another: PORT={port + 1} make up"
            ) from error
        raise CommandError(f"Port {port} cannot be used ({error.strerror}). Choose another with PORT.") from error
    listener.listen(_BACKLOG)
    return listener


def serve(listener: socket.socket, *, lifespan: Literal["on", "off"] = "off") -> None:
    """Serve until SIGTERM or Ctrl-C. With a lifespan, what has to hold before is checked first."""
    options: dict[str, Any] = {
        "http": Connection,
        "log_level": "warning",
        "log_config": None,
        "access_log": False,
        "lifespan": lifespan,
        # So many are taken in at once, before the first of them is counted.
        "backlog": min(_BACKLOG, most_connections() // 6),
        "timeout_graceful_shutdown": 5,
        "server_header": False,
        # A connection to a job may be slow to take what it is sent; one that is dead ends when TCP gives it up.
        "ws_ping_timeout": _SLOWEST_S,
        "ws_max_size": _LARGEST_MESSAGE_BYTES,
        "ws_per_message_deflate": False,
        "proxy_headers": False,  # `config.proxies` decides whom to believe
    }
    uvicorn.Server(uvicorn.Config("config.asgi:application", **options)).run(sockets=[listener])
