"""Ports of running jobs, reached from the user's machine through the platform."""

import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compute.web.connections_asgi import MOST_OF_PERSON
from tests.journeys.product import BIN, Product
from tests.ports import reserve_port

ON_THIS_MACHINE = ("--template", "this-machine.small")


@pytest.fixture(scope="module")
def running(tmp_path_factory) -> Iterator[Product]:
    """A product of one host, which a test may kill and start again."""
    product = Product(tmp_path_factory.mktemp("product") / "home").start()
    product.cli("project", "create", "demo", cwd=product.home)
    yield product
    product.stop()


@contextmanager
def forwarded(product: Product, cwd: Path, job: str, port: int) -> Iterator[tuple[subprocess.Popen, int]]:
    """Run `nearline job port-forward`, and yield it with the port of this machine that it listens on."""
    environment = {**product.environment, "NEARLINE_URL": product.url, "NEARLINE_TOKEN": product.token}
    with subprocess.Popen(
        [BIN / "nearline", "job", "port-forward", job, f":{port}"],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            line = process.stdout.readline()
            match = re.match(r"127\.0\.0\.1:([0-9]+) leads to port", line)
            assert match is not None, line + process.stderr.read()
            yield process, int(match[1])
        finally:
            process.kill()


def submit(product: Product, cwd: Path, command: str, *options: str) -> str:
    """Submit a job and wait until it runs."""
    job = product.cli_json("job", "submit", command, "--project", "demo", *options, cwd=cwd)["name"]
    product.wait_for(lambda: state_of(product, cwd, job), lambda state: state == "running")
    return job


def state_of(product: Product, cwd: Path, job: str) -> str:
    return product.cli_json("job", "show", job, cwd=cwd)["state"]


def wait_for_line(product: Product, cwd: Path, job: str, line: str) -> None:
    product.wait_for(lambda: product.cli("job", "logs", job, cwd=cwd).stdout, lambda text: line in text)


def fetch(port: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/answer", timeout=60) as answer:
        return answer.read()


def try_to_fetch(port: int) -> bytes:
    try:
        return fetch(port)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return b""


def talk(port: int, text: bytes) -> bytes:
    """Send a text, end this direction, and return all that comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


COUNTER = """
import socket
with socket.create_server(("127.0.0.1", {port})) as server:
    while True:
        connection, _ = server.accept()
        with connection:
            size = sum(map(len, iter(lambda: connection.recv(1 << 16), b"")))
            connection.sendall(str(size).encode())
"""


def test_a_web_server_in_a_job_is_reached_until_the_job_ends(running, tmp_path):
    port = reserve_port()
    job = submit(running, tmp_path, f"echo 42 > answer; exec python -u -m http.server {port}", *ON_THIS_MACHINE)
    wait_for_line(running, tmp_path, job, "Serving HTTP")

    with forwarded(running, tmp_path, job, port) as (process, local):
        answers = [fetch(local) for _ in range(3)]
        running.cli("job", "stop", job, cwd=tmp_path)
        running.wait_for(lambda: state_of(running, tmp_path, job), lambda state: state == "cancelled")
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            fetch(local)
        said = process.stderr.read()

    assert answers == [b"42\n"] * 3
    assert process.wait() == 5
    assert f"✗ {job} does not run: it is cancelled." in said


def test_each_direction_ends_by_itself_and_a_port_without_a_listener_is_told(running, tmp_path):
    port, closed = reserve_port(), reserve_port()
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "count.py").write_text(COUNTER.format(port=port) + "\n")
    options = ("--code", str(tmp_path / "code"), *ON_THIS_MACHINE)
    job = submit(running, tmp_path, "echo begins; exec python count.py", *options)

    with forwarded(running, tmp_path, job, closed) as (process, local):
        assert talk(local, b"hello") == b""
        assert process.stderr.readline() == "End it with Ctrl-C.\n"
        assert process.stderr.readline() == f"✗ Nothing listens on port {closed} of the job.\n"
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    # The port of the platform itself is on the same machine, and no port of the job.
    with forwarded(running, tmp_path, job, running.port) as (process, local):
        assert talk(local, b"GET / HTTP/1.0\r\n\r\n") == b""
    with forwarded(running, tmp_path, job, port) as (process, local):
        size = running.wait_for(lambda: talk(local, bytes(3_000_000)), lambda answer: answer != b"")

    assert size == b"3000000"


def test_a_forward_outlives_a_restart_of_the_platform(running, tmp_path):
    port = reserve_port()
    job = submit(running, tmp_path, f"echo 42 > answer; exec python -u -m http.server {port}", *ON_THIS_MACHINE)
    wait_for_line(running, tmp_path, job, "Serving HTTP")

    with forwarded(running, tmp_path, job, port) as (_, local):
        with socket.create_connection(("127.0.0.1", local), timeout=60) as open_connection:
            assert fetch(local) == b"42\n"
            running.kill()
            assert open_connection.recv(1) == b""
        running.start()
        assert fetch(local) == b"42\n"


def test_forgotten_connections_are_limited_and_slow_no_page(running, tmp_path):
    port = reserve_port()
    job = submit(running, tmp_path, f"echo 42 > answer; exec python -u -m http.server {port}", *ON_THIS_MACHINE)
    wait_for_line(running, tmp_path, job, "Serving HTTP")

    with forwarded(running, tmp_path, job, port) as (process, local):
        idle = [socket.create_connection(("127.0.0.1", local), timeout=60) for _ in range(MOST_OF_PERSON + 1)]
        said = [process.stderr.readline() for _ in range(2)]
        assert running.api("GET", "/compute/jobs")["items"][0]["name"] == job
        for connection in idle:
            connection.close()
        assert running.wait_for(lambda: try_to_fetch(local), lambda answer: answer == b"42\n")

    assert said[1] == f"✗ You have {MOST_OF_PERSON} connections to jobs open, the most that there may be.\n"
