"""A small proxy before a real S3 server, which answers some requests as other servers do."""

import http.client
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Answer:
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Forward = Callable[[Request], Answer]
Rule = Callable[[Request, Forward], Answer]


def refusal(status: int, code: str) -> Answer:
    """Return what an S3 server says that refuses."""
    return Answer(status, f"<Error><Code>{code}</Code><Message>as told</Message></Error>".encode())


def as_storagegrid(request: Request, forward: Forward) -> Answer:
    """Answer as documented of StorageGRID: no checksums before 11.9, nothing of object lock where the grid has none.

    A deletion of many objects needs its Content-MD5.
    """
    if "x-amz-checksum-sha256" in request.headers or "If-None-Match" in request.headers:
        return refusal(501, "NotImplemented")
    if request.method == "POST" and request.path.endswith("?delete") and "Content-MD5" not in request.headers:
        return refusal(400, "InvalidRequest")
    if request.path.endswith("?object-lock"):
        return refusal(404, "ObjectLockConfigurationNotFoundError")
    if request.path.endswith("?lifecycle"):
        return refusal(404, "NoSuchLifecycleConfiguration")
    return forward(request)


@contextmanager
def proxy(upstream: str, rule: Rule) -> Iterator[str]:
    """Serve on loopback; requests reach `upstream` as they were signed, for the address of the proxy."""
    target = urlsplit(upstream)

    def forward(request: Request) -> Answer:
        connection = http.client.HTTPConnection(target.hostname, target.port, timeout=120)
        connection.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
        for name, value in request.headers.items():
            connection.putheader(name, value)
        connection.endheaders(request.body or None)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return Answer(answer.status, body, dict(answer.getheaders()))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            if self.headers.get("Expect") == "100-continue":
                del self.headers["Expect"]
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = rule(Request(self.command, self.path, self.headers, body), forward)
            self.send_response_only(answer.status)
            own = {"content-length", "transfer-encoding", "connection"}
            for name, value in answer.headers.items():
                if name.lower() not in own:
                    self.send_header(name, value)
            length = answer.headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(answer.body))
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
