"""What the agents in pods speak with, where a test has no platform: keeps outputs in a folder, gives out archives."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from compute.adapters.output_folder import OutputFolder
from nearline.content import archives


class StandInPlatform:
    """A server on an address that pods reach. `trees` are folders by the path under which a pod asks for them."""

    def __init__(self, address: str, folder: Path) -> None:
        self.folder = folder
        self.trees: dict[str, Path] = {}
        self.fault = 0
        platform = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = b"".join(_chunks(self.rfile))
                if platform.fault:
                    self._answer(platform.fault, {"title": "The attempt is over."})
                    return
                self._answer(200, {"root": platform.store(body), "files": 0, "size_bytes": 0})

            def do_GET(self) -> None:
                if self.path == "/healthz":
                    self._answer(200, {})
                    return
                if platform.fault:
                    self._answer(platform.fault, {"message": "The attempt is over."})
                    return
                tree = platform.trees.get(self.path.removeprefix("/api/v1/attempt/trees/"))
                if tree is None:
                    self._answer(404, {"title": "There is no such tree."})
                    return
                body = b"".join(archives.pack(tree))
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def _answer(self, status: int, value: dict) -> None:
                body = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer((address, 0), Handler)
        self.url = f"http://{address}:{self._server.server_port}"

    @contextmanager
    def running(self) -> Iterator["StandInPlatform"]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def store(self, archive: bytes) -> str:
        root = hashlib.sha256(archive).hexdigest()
        archives.unpack(iter([archive]), self.folder / root)
        return root

    def open(self, job_id: str, root: str) -> OutputFolder:
        return OutputFolder(self.folder / root)


def _chunks(stream) -> Iterator[bytes]:
    while size := int(stream.readline(), 16):
        yield stream.read(size)
        stream.readline()
    stream.readline()
