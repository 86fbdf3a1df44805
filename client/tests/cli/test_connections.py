"""Ports of jobs and terminals in them: what is asked of the server, and what is told when it cannot be."""

import socket

import pytest

from nearline.cli.forwarding import Forward, host_for_browsers, listen, read_forward
from nearline.errors import InvalidRequest


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8888", Forward(8888, 8888)),
        ("9000:8888", Forward(9000, 8888)),
        (":8888", Forward(0, 8888)),
        ("0:1", Forward(0, 1)),
        ("65535", Forward(65535, 65535)),
    ],
)
def test_a_port_is_read(text, expected):
    assert read_forward(text) == expected


@pytest.mark.parametrize(
    "text", ["", ":", "0", "8888:", "65536", "65536:80", "80:80:80", "http", "-1", " 80", "\uff18"]
)
def test_what_is_no_port_is_told(cli, text):
    done = cli("job", "port-forward", "train", "--", text)

    assert done.exit_code == 2
    assert done.stderr.splitlines()[0] == f"✗ '{text}' is not a port."


def test_a_port_of_this_machine_that_is_taken_is_told():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(InvalidRequest) as refused:
            listen(Forward(port, 8888))

    assert refused.value.message == f"Port {port} of this machine cannot be used: Address already in use."


def test_a_browser_that_has_the_platform_at_an_address_opens_a_port_at_another_one():
    assert host_for_browsers("http://127.0.0.1:8000") == "localhost"
    assert host_for_browsers("http://localhost:8000") == host_for_browsers("https://nearline.lab") == "127.0.0.1"


def test_a_port_of_a_job_that_has_ended_is_told_before_anything_listens(cli, server):
    title = "train does not run: it is succeeded."
    server.refuse("POST", "/compute/jobs/train/ports", 409, title=title, code="compute.job_not_running")

    done = cli("job", "port-forward", "train", ":8888", "--replica", "2")

    assert (done.exit_code, done.stderr.splitlines()[0]) == (5, f"✗ {title}")
    assert server.bodies("POST", "/compute/jobs/train/ports") == [{"port": 8888, "replica": 2}]


def test_a_terminal_needs_one(cli):
    done = cli("job", "exec", "-it", "train", "--", "top")

    assert (done.exit_code, done.stderr.splitlines()[0]) == (2, "✗ This is no terminal.")


def test_what_is_piped_into_a_shell_runs_without_a_terminal(cli, server):
    server.on("POST", "/compute/jobs/train/exec", b'{"stdout": "b25l"}\n{"exit_code": 3}\n')

    done = cli("job", "bash", "train")

    assert (done.stdout, done.exit_code) == ("one", 3)
