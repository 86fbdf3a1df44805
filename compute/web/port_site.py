"""What a browser and the server of a job say to each other, in the words of the other side.

The server sees what it sees by `port-forward`, requests to `localhost:PORT`, so one that minds its host name needs no
setting. It never sees the pass of whoever asks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

Headers = list[tuple[bytes, bytes]]

# Of the connection, not of the message (RFC 9110, 7.6.1).
_HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)
# Would sign people out of the platform, where both have host names below one domain.
_FOR_OTHER_HOSTS = frozenset({b"clear-site-data"})
_KNOWN_STATUS: Final = frozenset(map(int, HTTPStatus))
_FAULT_OF_JOB: Final = 600


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
        for name, value in _end_to_end(scope["headers"]):
            if name == b"cookie":
                parts = [part.strip() for part in value.split(b";")]
                rest = b"; ".join(part for part in parts if not part.startswith(f"{self.cookie}=".encode()))
                headers += [(name, rest)] if rest else []
            elif name in {b"origin", b"referer"} and value.startswith(origin):
                headers.append((name, local + value[len(origin) :]))
            elif name != b"host" and not name.startswith(b"x-forwarded-"):
                headers.append((name, value))
        return [*headers, (b"x-forwarded-host", self.host.encode()), (b"x-forwarded-proto", self.scheme.encode())]

    def headers_for_browser(self, headers: Sequence[tuple[bytes, bytes]]) -> Headers:
        """Return the headers of an answer, whose redirects to `localhost` stay at this host name."""
        return [
            (name, self._where(value) if name == b"location" else value)
            for name, value in _end_to_end(headers)
            if name not in _FOR_OTHER_HOSTS
        ]

    def _where(self, location: bytes) -> bytes:
        for local in (self.local.encode(), self.local.replace("localhost", "127.0.0.1").encode()):
            if location == local or location.startswith(local + b"/"):
                return location[len(local) :] or b"/"
        return location


def status_for_browser(status: int) -> int:
    """Return the status of an answer; the general one of its class for one that only the job knows (RFC 9110, 15)."""
    if status in _KNOWN_STATUS:
        return status
    return status // 100 * 100 if status < _FAULT_OF_JOB else HTTPStatus.BAD_GATEWAY


def _end_to_end(headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    """Return the headers that are of a message. What comes in chunks has no length (RFC 9112, 6.3)."""
    lowered = [(name.lower(), value) for name, value in headers]
    is_chunked = any(name == b"transfer-encoding" for name, _ in lowered)
    left_out = _HOP_BY_HOP | ({b"content-length"} if is_chunked else set())
    return [(name, value) for name, value in lowered if name not in left_out]


def header(scope: Any, name: bytes, between: str = ", ") -> str:
    """Return the values of a header of a request; empty: it has none."""
    return between.join(value.decode("latin-1") for key, value in scope["headers"] if key == name)


def target_of(scope: Any) -> bytes:
    """Return path and query of a request as they were sent."""
    query: bytes = scope["query_string"]
    path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    return path + (b"?" + query if query else b"")
