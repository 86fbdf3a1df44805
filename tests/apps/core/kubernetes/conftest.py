"""An API server that answers what a test says, and the gateway to it."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from core.kubernetes.gateway import Gateway
from core.kubernetes.kubeconfig import Kubeconfig


class Server:
    """An API server that answers what a test says, and notes what it was asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, object]] = []
        self.asked: list[tuple[str, str, dict, object]] = []
        self.location = ""
        server = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                server.asked.append((self.command, self.path, dict(self.headers), body))
                status, value = server.answers.pop(0)
                text = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                if server.location:
                    self.send_header("Location", server.location)
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815 (names of the base class)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server():
    started = Server()
    yield started
    started.close()


@pytest.fixture
def gateway(server):
    return Gateway(Kubeconfig(server.url, "lab", token="secret"))
