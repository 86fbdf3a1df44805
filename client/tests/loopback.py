"""HTTP servers on the loopback interface: a store that answers what a test says, and a proxy in front of it."""

import contextlib
import ipaddress
import selectors
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass
class Request:
    """What reached the server. `connection` is the client's port: equal for requests on one connection."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int


@dataclass
class Answer:
    """What the server says. `length` announces another number of bytes than follow; then the connection ends."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None


@dataclass
class Loopback:
    """A running server, and what reached it."""

    url: str
    requests: list[Request] = field(default_factory=list)


@contextlib.contextmanager
def serve(
    answer: Callable[[Request], Answer], *, host: str = "127.0.0.1", certificate: Path | None = None
) -> Iterator[Loopback]:
    """Run a server until the block ends; with a certificate it speaks TLS."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def note(self, body: bytes = b"") -> Request:
            headers = {name.title(): value for name, value in self.headers.items()}
            running.requests.append(Request(self.command, self.path, headers, body, self.client_address[1]))
            return running.requests[-1]

        def answer(self) -> None:
            said = answer(self.note(self.rfile.read(int(self.headers.get("Content-Length", 0)))))
            self.send_response(said.status)
            self.send_header("Content-Length", str(len(said.body) if said.length is None else said.length))
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said.body)
            self.close_connection = self.close_connection or said.length is not None

        do_GET = do_POST = do_PUT = answer  # noqa: N815 (names that the library looks for)

        def do_CONNECT(self) -> None:
            self.note()
            name, _, port = self.path.rpartition(":")
            with socket.create_connection((name, int(port))) as far:
                self.send_response(200)
                self.end_headers()
                _pass_on(self.connection, far)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((host, 0), Handler)
    server.daemon_threads = True
    scheme = "http"
    if certificate is not None:
        scheme, context = "https", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    running = Loopback(f"{scheme}://{host}:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def write_certificate(path: Path, address: str) -> Path:
    """Write a self-signed certificate for an address, with its key, and return the path."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a store on loopback")])
    start = datetime(2020, 1, 1, tzinfo=UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start.replace(year=2120))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return path


def _pass_on(near: socket.socket, far: socket.socket) -> None:
    with selectors.DefaultSelector() as waiting:
        waiting.register(near, selectors.EVENT_READ, far)
        waiting.register(far, selectors.EVENT_READ, near)
        while True:
            for key, _ in waiting.select():
                data = key.fileobj.recv(65536)
                if not data:
                    return
                key.data.sendall(data)
