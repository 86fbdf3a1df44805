"""Ports of running jobs, and terminals in them, reached from the user's machine through the platform."""

import fcntl
import http.client
import os
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from compute.web.open_connections import MOST_OF_PERSON
from tests.journeys.product import BIN, Product
from tests.ports import reserve_port

LIMIT_S = 600


@pytest.fixture(scope="module")
def running(tmp_path_factory) -> Iterator[Product]:
    """A product of one host, which a test may kill and start again."""
    product = Product(tmp_path_factory.mktemp("product") / "home").start()
    product.cli("project", "create", "demo", cwd=product.home)
    yield product
    product.stop()


@pytest.fixture
def submit(running, tmp_path) -> Iterator[Callable[..., str]]:
    """Return a function that submits a job and waits until it runs. At the end all of them make way for others."""
    jobs = []

    def act(command: str, *options: str) -> str:
        options = ("--project", "demo", "--template", "this-machine.small", *options)
        jobs.append(running.cli_json("job", "submit", command, *options, cwd=tmp_path)["name"])
        running.wait_for(lambda: state_of(running, tmp_path, jobs[-1]), lambda state: state == "running")
        return jobs[-1]

    yield act
    running.cli("job", "stop", *jobs, cwd=tmp_path)
    for job in jobs:
        running.wait_for(lambda job=job: state_of(running, tmp_path, job), lambda state: state == "cancelled")


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
            assert [process.stderr.readline() for _ in range(2)] == [
                "In a browser take localhost: to 127.0.0.1 it sends the cookies of Nearline, to the job too.\n",
                "End it with Ctrl-C.\n",
            ]
            yield process, int(match[1])
        finally:
            process.kill()


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
    """Send a text, end this direction, and return all that comes back; nothing where the other side ends first."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        try:
            connection.sendall(text)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(1 << 16), b""))
        except TimeoutError:
            raise
        except OSError:
            return b""


COUNTER = """
import socket
with socket.create_server(("127.0.0.1", {port})) as server:
    print("listens", flush=True)
    while True:
        connection, _ = server.accept()
        with connection:
            size = sum(map(len, iter(lambda: connection.recv(1 << 16), b"")))
            connection.sendall(str(size).encode())
"""


def ask_as_browser(product: Product, host: str, target: str, cookie: str = "") -> tuple[int, str, str, bytes]:
    """Return status, location, cookie and body of what a browser is answered at a host name below `localhost`."""
    connection = http.client.HTTPConnection("127.0.0.1", product.port, timeout=60)
    headers = {"Host": f"{host}.localhost:{product.port}", "Accept": "text/html", "Cookie": cookie}
    connection.request("GET", target, headers=headers)
    answer = connection.getresponse()
    facts = answer.getheader("Location", ""), answer.getheader("Set-Cookie", "").partition(";")[0]
    return (answer.status, *facts, answer.read())


def test_a_browser_reaches_a_web_server_in_a_job_at_a_host_name_of_its_own(running, submit, tmp_path):
    port = reserve_port()
    job = submit(f"echo 42 > answer; exec python -u -m http.server {port}", "--port", str(port))
    wait_for_line(running, tmp_path, job, "Serving HTTP")
    [path] = running.cli_json("job", "show", job, cwd=tmp_path)["port_urls"].values()
    label = path.split("/")[2]

    outside = ask_as_browser(running, label, "/answer")
    ticket = running.api("POST", f"/compute/jobs/{job}/ports", {"port": port})["ticket"]
    entered = ask_as_browser(running, label, f"/.nearline/enter?ticket={ticket}&path=/answer")
    inside = ask_as_browser(running, label, "/answer", entered[2])

    assert outside[:2] == (303, f"{running.url}{path}?path=%2Fanswer")
    assert entered[:2] == (303, "/answer")
    assert (inside[0], inside[3]) == (200, b"42\n")


def test_a_web_server_in_a_job_is_reached_until_the_job_ends(running, submit, tmp_path):
    port = reserve_port()
    job = submit(f"echo 42 > answer; exec python -u -m http.server {port}")
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


def test_each_direction_ends_by_itself_and_a_port_without_a_listener_is_told(running, submit, tmp_path):
    port, closed = reserve_port(), reserve_port()
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "count.py").write_text(COUNTER.format(port=port) + "\n")
    job = submit("exec python count.py", "--code", str(tmp_path / "code"))
    wait_for_line(running, tmp_path, job, "listens")

    with forwarded(running, tmp_path, job, closed) as (process, local):
        assert talk(local, b"hello") == b""
        assert process.stderr.readline() == f"✗ Nothing listens on port {closed} of the job.\n"
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    # The port of the platform itself is on the same machine, and no port of the job.
    with forwarded(running, tmp_path, job, running.port) as (process, local):
        assert talk(local, b"GET / HTTP/1.0\r\n\r\n") == b""
    with forwarded(running, tmp_path, job, port) as (process, local):
        size = talk(local, bytes(3_000_000))

    assert size == b"3000000"


def test_a_forward_outlives_a_restart_of_the_platform(running, submit, tmp_path):
    port = reserve_port()
    job = submit(f"echo 42 > answer; exec python -u -m http.server {port}")
    wait_for_line(running, tmp_path, job, "Serving HTTP")

    with forwarded(running, tmp_path, job, port) as (_, local):
        with socket.create_connection(("127.0.0.1", local), timeout=60) as open_connection:
            assert fetch(local) == b"42\n"
            running.kill()
            assert open_connection.recv(1) == b""
        running.start()
        assert fetch(local) == b"42\n"


def test_forgotten_connections_are_limited_and_slow_no_page(running, submit, tmp_path):
    port = reserve_port()
    job = submit(f"echo 42 > answer; exec python -u -m http.server {port}")
    wait_for_line(running, tmp_path, job, "Serving HTTP")

    with forwarded(running, tmp_path, job, port) as (process, local):
        idle = [socket.create_connection(("127.0.0.1", local), timeout=60) for _ in range(MOST_OF_PERSON + 1)]
        said = process.stderr.readline()
        assert running.api("GET", "/compute/jobs")["items"][0]["name"] == job
        for connection in idle:
            connection.close()
        assert running.wait_for(lambda: try_to_fetch(local), lambda answer: answer == b"42\n")

    assert said == f"✗ You have {MOST_OF_PERSON} connections to jobs open, the most that there may be.\n"


class Screen:
    """A terminal of 77 columns and 33 rows in which `nearline` runs."""

    def __init__(self, product: Product, cwd: Path, *arguments: str) -> None:
        self.master, slave = os.openpty()
        self.resize(77, 33)
        self.before = termios.tcgetattr(self.master)
        environment = {**product.environment, "NEARLINE_URL": product.url, "NEARLINE_TOKEN": product.token}
        command = ["setsid", "--ctty", BIN / "nearline", *arguments]
        self.process = subprocess.Popen(command, cwd=cwd, env=environment, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        self.shown = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def read_until(self, text: str | None) -> str:
        """Return what is shown up to a text; None: until the program ends."""
        while text is None or text not in self.shown:
            assert select.select([self.master], [], [], LIMIT_S)[0], self.shown
            try:
                self.shown += os.read(self.master, 1 << 16).decode()
            except OSError:  # nobody has the terminal open any more
                assert text is None, self.shown
                break
        return self.shown


def test_a_shell_in_a_job_has_a_real_terminal(running, submit, tmp_path):
    job = submit("echo 4$((1 + 1)) > answer; echo begun; exec sleep 600")
    wait_for_line(running, tmp_path, job, "begun")

    with Screen(running, tmp_path, "job", "bash", job) as screen:
        screen.type("cat answer; tty; stty size\r")
        screen.read_until("33 77\r\n")
        # One process says that it is there and sleeps: Ctrl-C between two commands of a shell would stop neither.
        screen.type("sh -c 'echo sleeps; exec sleep 600'\r")
        screen.read_until("sleeps\r\n")
        screen.type("\x03")
        screen.type("exit 5\r")
        shown = screen.read_until(None)
        after = termios.tcgetattr(screen.master)
        assert screen.process.wait() == 5

    assert "42\r\n/dev/pts/" in shown
    assert after == screen.before


def test_a_command_in_a_terminal_learns_of_a_new_size(running, submit, tmp_path):
    job = submit("echo begun; exec sleep 600")
    wait_for_line(running, tmp_path, job, "begun")
    script = "trap 'stty size; exit 4' WINCH; echo begun; while :; do sleep 0.1; done"

    with Screen(running, tmp_path, "job", "exec", "-it", job, "--", "sh", "-c", script) as screen:
        screen.read_until("begun")
        screen.resize(120, 40)

        assert screen.read_until(None).endswith("40 120\r\n")
        assert screen.process.wait() == 4


def test_a_terminal_whose_job_is_killed_says_so_and_leaves_the_users_terminal_as_it_was(running, submit, tmp_path):
    job = submit("echo begun; exec sleep 600")
    wait_for_line(running, tmp_path, job, "begun")

    with Screen(running, tmp_path, "job", "exec", "-it", job, "--", "sh", "-c", 'echo be""gins; sleep 600') as screen:
        screen.read_until("begins")
        running.cli("job", "stop", job, cwd=tmp_path)
        screen.read_until(None)
        after = termios.tcgetattr(screen.master)
        assert screen.process.wait() != 0

    assert after == screen.before
