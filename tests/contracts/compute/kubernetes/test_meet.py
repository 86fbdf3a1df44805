"""How the pods of a gang wait for each other before their commands start."""

import json
import signal
import socket
import threading

import pytest

from nearline.pod import __main__ as pod


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    monkeypatch.setattr(pod, "_MESSAGE", tmp_path / "message")
    monkeypatch.setenv("NEARLINE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("NEARLINE_ATTEMPT_TOKEN", "token")
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_pod_goes_on_once_all_names_are_known():
    assert pod.main(["meet", json.dumps(["localhost", "127.0.0.1"])]) == 0


def test_a_launcher_goes_on_once_the_others_listen():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        threading.Timer(0.3, server.listen).start()

        assert pod.main(["meet", json.dumps([f"127.0.0.1:{server.getsockname()[1]}"])]) == 0

        server.settimeout(60)
        server.accept()[0].close()
