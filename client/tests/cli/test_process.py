"""The program as a process: interrupted, left by its reader, surprised."""

import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nearline.cli import main as program

FULL = Path("/dev/full")
COMMAND = [sys.executable, "-c", "from nearline.cli.main import main; main()"]


@pytest.fixture
def silent_server():
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def interrupt(process: subprocess.Popen) -> tuple[str, str]:
    """Press Ctrl-C, and again after a while: Python drops an interrupt that comes while it tidies up an object."""
    for _ in range(5):
        process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=25)
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    return process.communicate()


def test_ctrl_c_is_one_word_and_130(silent_server, tmp_path):
    url = f"http://127.0.0.1:{silent_server.getsockname()[1]}"
    process = subprocess.Popen(
        [*COMMAND, "--url", url, "--token", "t", "whoami"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)},
    )
    silent_server.settimeout(300)
    connection, _ = silent_server.accept()
    with connection:
        connection.recv(1)
        stdout, stderr = interrupt(process)

    assert (process.returncode, stdout, stderr.strip()) == (130, "", "Interrupted.")


def test_a_secret_that_is_no_text_is_refused_here_whatever_the_locale(tmp_path):
    done = subprocess.run(
        [*COMMAND, "--url", "http://127.0.0.1:9", "--token", "t", "secret", "set", "KEY", "--project", "p"],
        input=b"\xff\xfe",
        capture_output=True,
        env={"HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path), "LC_ALL": "C"},
        check=False,
    )

    assert (done.returncode, done.stderr.decode()) == (2, "✗ What came on stdin is no text.\n")


def test_a_reader_that_leaves_in_the_middle_is_no_traceback(tmp_path):
    ready = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                ready.wait(120)
                body = b'{"items": [' + b",".join([b'{"name": "x"}'] * 5000) + b'], "next_cursor": null}'
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                connection.sendall(head.encode() + body)

        server = threading.Thread(target=serve)
        server.start()
        process = subprocess.Popen(
            [*COMMAND, "--url", url, "--token", "t", "project", "list"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)},
        )
        process.stdout.close()
        ready.set()
        code = process.wait(120)
        server.join(120)

    assert (code, process.stderr.read()) == (1, "")
    process.stderr.close()


def test_what_nobody_foresaw_is_a_sentence_and_the_place_of_its_details(monkeypatch, capsys, tmp_path):
    def surprise():
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(program, "app", surprise)
    monkeypatch.delenv("NEARLINE_DEBUG", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(program, "_prepare_streams", lambda: None)

    with pytest.raises(SystemExit) as ended:
        program.main()

    assert ended.value.code == 1
    error = capsys.readouterr().err
    assert error.startswith("✗ Something broke inside the client: ZeroDivisionError: division by zero\nhint: ")
    assert "Traceback" not in error
    [details] = tmp_path.iterdir()
    assert error.rstrip().endswith(f"The details are in {details}.")
    assert "ZeroDivisionError: division by zero" in details.read_text()
    assert details.stat().st_mode & 0o077 == 0


def test_whoever_asks_gets_the_traceback(monkeypatch):
    def surprise():
        raise ZeroDivisionError

    monkeypatch.setattr(program, "app", surprise)
    monkeypatch.setattr(program, "_prepare_streams", lambda: None)
    monkeypatch.setenv("NEARLINE_DEBUG", "1")

    with pytest.raises(ZeroDivisionError):
        program.main()


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
def test_output_that_does_not_fit_is_a_failure_that_says_what_to_do():
    with FULL.open("w") as full:
        done = subprocess.run([*COMMAND, "--version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "✗ No space left on device.",
        "hint: Free space on the disk, or use another one. Then run the command again.",
    ]


def test_a_closed_stdin_is_no_traceback():
    shell = ["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, "login", "--user", "ann", "http://127.0.0.1:9"]

    done = subprocess.run(shell, stderr=subprocess.PIPE, text=True, check=False)

    assert (done.returncode, done.stderr) == (
        2,
        "✗ There is no password to sign in with.\nhint: Add `-p -` to read it from stdin.\n",
    )


def test_a_closed_stdout_is_no_traceback():
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "--version"]

    done = subprocess.run(shell, stderr=subprocess.PIPE, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
