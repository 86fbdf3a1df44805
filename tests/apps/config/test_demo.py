"""The demo of the first start, when it fails."""

import io
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from config.demo import Demo

PROBLEM = b'{"code": "core.internal", "title": "Internal error. It has been logged.", "status": 500}'


class Broken(BaseHTTPRequestHandler):
    """A server that answers everything with an internal error."""

    def do_GET(self) -> None:
        self.send_response(500)
        self.send_header("Content-Type", "application/problem+json")
        self.send_header("Content-Length", str(len(PROBLEM)))
        self.end_headers()
        self.wfile.write(PROBLEM)

    do_POST = do_GET  # noqa: N815 (the same)

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def broken_server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Broken)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def tell(settings, home: Path, url: str, *, stop: threading.Event | None = None) -> list[str]:
    settings.NEARLINE = replace(settings.NEARLINE, home=home, public_url=url, sample=True)
    out = io.StringIO()
    demo = Demo(out, stop or threading.Event(), home / "nearline.log")

    demo.begin()
    assert demo.is_due
    demo.run()

    return out.getvalue().split("\n\n")[-1].splitlines()


def test_an_internal_error_is_one_sentence_with_the_place_of_the_log(settings, tmp_path, broken_server):
    (tmp_path / "admin.token").write_text("token")

    end = tell(settings, tmp_path, broken_server)

    what = "`nearline project list` failed: Internal error. It has been logged."
    assert end == [
        f"The demo did not finish. {what} The log is in {tmp_path / 'nearline.log'}",
        "Nearline goes on serving; the next start tries again.",
    ]
    assert not (tmp_path / "sample.told").exists()


def test_what_nobody_thought_of_is_one_sentence_too(settings, tmp_path, broken_server):
    end = tell(settings, tmp_path, broken_server)  # there is no token to read

    assert end[0] == f"The demo did not finish. Internal error. The log is in {tmp_path}/nearline.log"


def test_a_demo_that_is_stopped_says_so(settings, tmp_path, broken_server):
    stop = threading.Event()
    stop.set()

    end = tell(settings, tmp_path, broken_server, stop=stop)

    assert end[0] == f"The demo did not finish. It was stopped. The log is in {tmp_path}/nearline.log"
