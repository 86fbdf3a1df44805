"""Files of a copy, read by a process on another host that makes the same copy.

The host that has it serves that one copy over TLS to who shows a token. The platform makes key and token for this, and
gives the reader the token and the certificate. A request names many files, and the answer has one after the other: its
size in eight bytes, or that there is none, and its content. A file that is not there yet, as the copy is in the making,
is waited for.
"""

import errno
import hmac
import http.client
import json
import os
import socket
import ssl
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_SIZE_BYTES, _ABSENT = 8, 2**64 - 1
_CHUNK_BYTES = 2**20
_MOST_REQUEST_BYTES = 64 * 2**20
_CONNECT_S, _SILENCE_S = 5.0, 60.0
_LONGEST_S = 86_400.0
_POLL_S, _WAIT_S = 0.5, 0.05
_TIMEOUT_S = 30.0
"""So long may a file of a copy that is being filled take to appear; then only what is there is given."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_FILE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.ENAMETOOLONG}


class PeerGone(Exception):
    """The other host does not answer, or no longer: what it has not given comes from elsewhere."""


@dataclass(frozen=True)
class Peer:
    """A copy that another host serves: its address, what opens it, and the one certificate that it is known by."""

    host: str
    port: int
    token: str
    certificate: str

    @classmethod
    def read_from(cls, path: Path) -> "Peer":
        """Read what the platform has told."""
        return cls(**json.loads(path.read_bytes()))

    def read(self, paths: Sequence[bytes]) -> Iterator["PeerFile | None"]:
        """Yield each of these files in turn, to be read before the next one; None: it has no such file.

        Raises PeerGone.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False  # nobody else has a key for this certificate
        context.load_verify_locations(cadata=self.certificate)
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=_CONNECT_S, context=context)
        try:
            answer = self._ask(connection, b"\0".join(paths))
            for _ in paths:
                size = int.from_bytes(answer.take(_SIZE_BYTES), "big")
                if size == _ABSENT:
                    yield None
                    continue
                file = PeerFile(answer, size)
                yield file
                file.skip()
        finally:
            connection.close()

    def _ask(self, connection: http.client.HTTPSConnection, names: bytes) -> "_Answer":
        try:
            connection.connect()
            connection.sock.settimeout(_SILENCE_S)
            connection.request("POST", "/", names, {"Authorization": f"Bearer {self.token}"})
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise PeerGone(str(error)) from error
        if response.status != http.client.OK:
            raise PeerGone(f"It answers {response.status}.")
        return _Answer(response)


class _Answer:
    """The bytes of an answer."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def take(self, size: int) -> bytes:
        """Return so many bytes. Raises PeerGone."""
        try:
            data = self._response.read(size)
        except (OSError, http.client.HTTPException) as error:
            raise PeerGone(str(error)) from error
        if len(data) < size:
            raise PeerGone("It broke off.")
        return data


class PeerFile:
    """One file of an answer."""

    def __init__(self, answer: _Answer, size: int) -> None:
        self.size = size
        self._answer, self._left = answer, size

    def read(self, size: int) -> bytes:
        """Return so many bytes, fewer at its end. Raises PeerGone."""
        data = self._answer.take(min(size, self._left))
        self._left -= len(data)
        return data

    def skip(self) -> None:
        """Read what is left. Raises PeerGone."""
        while self._left:
            self.read(_CHUNK_BYTES)


def serve(files: Path, ready: Path, secret: Path, *, timeout_s: float = _TIMEOUT_S) -> None:
    """Serve the files of a copy until nobody has asked for them, or touched `peer`, for a while.

    They are all there once `ready` exists; before, each is there whole or not at all. `secret` is a file with the token
    in its first line, then the key and its certificate; it is deleted. What a reader has to know is written to `peer`
    beside it.
    """
    token, _, pem = secret.read_text().partition("\n")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(secret)
    secret.unlink()
    with _Server(files, ready, token, context, timeout_s) as server:
        certificate = pem[pem.index("-----BEGIN CERTIFICATE-----") :]
        address = {"port": server.server_port, "token": token, "certificate": certificate}
        unfinished = secret.with_name("peer.new")
        unfinished.touch(0o600)
        unfinished.write_text(json.dumps(address))
        peer = unfinished.rename(secret.with_name("peer"))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ends_at = time.time() + _LONGEST_S
        while time.time() < min(ends_at, max(server.used_at, peer.stat().st_mtime) + _SILENCE_S):
            time.sleep(_POLL_S)
        server.shutdown()


class _Server(ThreadingHTTPServer):
    """Serves one copy. Each request has a thread, in which TLS begins too: who is slow holds up nobody else."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, files: Path, ready: Path, token: str, context: ssl.SSLContext, timeout_s: float) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        is_dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if is_dual else socket.AF_INET
        plain = socket.create_server(("", 0), family=family, dualstack_ipv6=is_dual)
        self.server_port = plain.getsockname()[1]
        self.socket = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        self.token = token
        self.used_at = time.time()
        self._files, self._ready = files, ready
        self._timeout_s = timeout_s

    def find(self, name: bytes) -> int | None:
        """Open a file, once it is there; None: there is none, or none yet."""
        give_up_at = time.monotonic() + self._timeout_s
        while True:
            is_complete = self._ready.exists()
            opened = _open_below(self._files, name)
            if opened is not None or is_complete or not self._timeout_s:
                return opened
            if time.monotonic() > give_up_at:
                self._timeout_s = 0.0  # what else is late is not waited for
            time.sleep(_WAIT_S)

    def handle_error(self, *_: Any) -> None:
        """Say nothing of those who connect and leave."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _SILENCE_S

    def do_POST(self) -> None:
        """Send the files that the request names, to who knows the token."""
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        size = int(self.headers.get("Content-Length", 0))
        if not hmac.compare_digest(given.encode(), self.server.token.encode()) or size > _MOST_REQUEST_BYTES:
            self.send_error(http.client.FORBIDDEN)
            return
        names = self.rfile.read(size).split(b"\0")
        self.send_response(http.client.OK)
        self.end_headers()
        for name in names:
            self._send(name)

    def _send(self, name: bytes) -> None:
        descriptor = self.server.find(name)
        if descriptor is None:
            self.wfile.write(_ABSENT.to_bytes(_SIZE_BYTES, "big"))
            return
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            left = os.fstat(descriptor).st_size
            self.wfile.write(left.to_bytes(_SIZE_BYTES, "big"))
            while left:
                data = file.read(min(left, _CHUNK_BYTES))
                if not data:
                    raise ConnectionAbortedError  # it was cut meanwhile: the reader has to see that
                self.wfile.write(data)
                left -= len(data)
                self.server.used_at = time.time()

    def log_message(self, *_: Any) -> None:
        """Write no line for each request."""


def _open_below(folder: Path, name: bytes) -> int | None:
    """Open a file that lies below a folder, by no link; None: there is none."""
    *parents, last = name.split(b"/")
    if not {b"", b".", b".."}.isdisjoint([*parents, last]):
        return None
    try:
        opened = os.open(folder, _FOLDER)
    except FileNotFoundError:
        return None
    try:
        for parent in parents:
            inner = os.open(parent, _FOLDER, dir_fd=opened)
            os.close(opened)
            opened = inner
        descriptor = os.open(last, _FILE, dir_fd=opened)
    except OSError as error:
        if error.errno in _NO_FILE:
            return None
        raise
    finally:
        os.close(opened)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None
