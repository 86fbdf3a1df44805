"""A load balancer on loopback, as stands before several web processes: each request goes to the next of them."""

import http.client
import itertools
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_HOP = {"connection", "keep-alive", "transfer-encoding"}


class Balancer:
    """Serves until it is stopped. A process that refuses the connection is passed over; `served` counts by port."""

    def __init__(self, port: int, backends: Sequence[int]) -> None:
        self.served: dict[int, int] = dict.fromkeys(backends, 0)
        self._turns = itertools.cycle(backends)
        self._guard = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler_of(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="balancer", daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection to the next process that takes one. Raises ConnectionRefusedError."""
        for number in range(len(self.served)):
            with self._guard:
                port = next(self._turns)
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            try:
                connection.connect()
            except ConnectionRefusedError:
                if number == len(self.served) - 1:
                    raise
                continue
            with self._guard:
                self.served[port] += 1
            return connection
        raise AssertionError


def _handler_of(balancer: Balancer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _pass_on(self) -> None:
            body = _read_body(self)
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
            try:
                connection = balancer.connect()
                connection.request(self.command, self.path, body or None, headers)
                answer = connection.getresponse()
            except (ConnectionError, http.client.HTTPException):
                self.send_error(502)
                return
            # Connections of this server end with their answer (HTTP/1.0), so no length need be known.
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _HOP:
                    self.send_header(name, value)
            self.end_headers()
            try:
                while piece := answer.read1(1 << 16):
                    self.wfile.write(piece)
                    self.wfile.flush()
            except (ConnectionError, http.client.HTTPException):
                self.close_connection = True
            finally:
                connection.close()

        def __getattr__(self, name: str) -> Callable[[], None]:
            if name.startswith("do_"):  # whatever the method
                return self._pass_on
            raise AttributeError(name)

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    return Handler


def _read_body(request: BaseHTTPRequestHandler) -> bytes:
    """Read what a request carries, also of one that goes on for as long as chunks come."""
    if request.headers.get("Transfer-Encoding") != "chunked":
        return request.rfile.read(int(request.headers.get("Content-Length", 0)))
    pieces = []
    while size := int(request.rfile.readline(), 16):
        pieces.append(request.rfile.read(size))
        request.rfile.readline()
    request.rfile.readline()
    return b"".join(pieces)
