"""What a browser and the server of a job say to each other, in the words of the other side.

The server sees what it sees by `port-forward`, requests to `localhost:PORT`, so one that minds its host name needs no
setting. It never sees the pass of whoever asks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

Headers = list[tuple[bytes, bytes]]

# Of the connection, not of the message (RFC 9110, 7.6.1).
_HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)


@dataclass(frozen=True)
class PortSite:
    """A port of a job as browsers see it: at `scheme://host`, with the pass in a cookie of that name."""

    scheme: str
    host: str
    port: int
    cookie: str

    @property
    def origin(self) -> str:
        """What a browser sends as the origin of its pages."""
        return f"{self.scheme}://{self.host}"

    @property
    def local(self) -> str:
        """The same for the server."""
        return f"http://localhost:{self.port}"

    def headers_for_job(self, scope: Any) -> Headers:
        """Return the headers of a request as who is at `localhost` would send them."""
        origin, local = self.origin.encode(), self.local.encode()
        headers = [(b"host", local.removeprefix(b"http://"))]
        for name, value in scope["headers"]:
            if name == b"cookie":
                parts = [part.strip() for part in value.split(b";")]
                rest = b"; ".join(part for part in parts if not part.startswith(f"{self.cookie}=".encode()))
                headers += [(name, rest)] if rest else []
            elif name in {b"origin", b"referer"} and value.startswith(origin):
                headers.append((name, local + value[len(origin) :]))
            elif name not in _HOP_BY_HOP and name != b"host" and not name.startswith(b"x-forwarded-"):
                headers.append((name, value))
        return [*headers, (b"x-forwarded-host", self.host.encode()), (b"x-forwarded-proto", self.scheme.encode())]

    def headers_for_browser(self, headers: Sequence[tuple[bytes, bytes]]) -> Headers:
        """Return the headers of an answer, whose redirects to `localhost` stay at this host name."""
        return [
            (name, self._where(value) if name == b"location" else value)
            for name, value in ((name.lower(), value) for name, value in headers)
            if name not in _HOP_BY_HOP
        ]

    def _where(self, location: bytes) -> bytes:
        for local in (self.local.encode(), self.local.replace("localhost", "127.0.0.1").encode()):
            if location == local or location.startswith(local + b"/"):
                return location[len(local) :] or b"/"
        return location


def header(scope: Any, name: bytes, between: str = ", ") -> str:
    """Return the values of a header of a request; empty: it has none."""
    return between.join(value.decode("latin-1") for key, value in scope["headers"] if key == name)


def target_of(scope: Any) -> bytes:
    """Return path and query of a request as they were sent."""
    query: bytes = scope["query_string"]
    path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    return path + (b"?" + query if query else b"")
