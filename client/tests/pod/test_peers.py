"""A copy that another host serves: who may read it, what of it, and what follows when it goes away in the middle."""

import contextlib
import json
import multiprocessing
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from client.tests.loopback import Answer, serve, write_certificate
from client.tests.pod.conftest import FILES, contents, counts
from nearline.pod import peers
from nearline.pod.peers import Peer, PeerGone

_TIMEOUT_S = 120
_LARGE = 64 * 2**20


@pytest.fixture
def host(tmp_path):
    """Return a folder of files, and what starts to serve it and returns the process and the peer.

    The file `READY` beside it says that they are all there.
    """
    files, ready = tmp_path / "there", tmp_path / "READY"
    files.mkdir()
    ready.touch()
    started = []

    def start(**options: float) -> tuple[multiprocessing.Process, Peer]:
        work = tmp_path / f"work-{len(started)}"
        work.mkdir()
        made = write_certificate(tmp_path / "made", "127.0.0.1").read_text()
        (work / "token").write_text(f"secret\n{made}")
        process = multiprocessing.get_context("spawn").Process(
            target=peers.serve, args=(files, ready, work / "token"), kwargs=options
        )
        process.start()
        started.append(process)
        give_up_at = time.monotonic() + _TIMEOUT_S
        while not (work / "peer").exists():
            assert time.monotonic() < give_up_at
            time.sleep(0.02)
        assert [path.name for path in work.iterdir()] == ["peer"]
        return process, Peer(host="127.0.0.1", **json.loads((work / "peer").read_bytes()))

    yield files, start
    for process in started:
        process.kill()
        process.join()


@pytest.fixture
def use(tmp_path, monkeypatch):
    """Have the pods told of a peer from now on."""

    def tell(peer: Peer) -> None:
        (tmp_path / "told").write_text(json.dumps(vars(peer)))
        monkeypatch.setenv("NEARLINE_PEER", str(tmp_path / "told"))

    return tell


def write(folder: Path, files) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def read_all(peer: Peer, *names: bytes) -> list[bytes | None]:
    return [file if file is None else file.read(file.size) for file in peer.read(names)]


def test_files_come_in_the_order_asked_for_and_whole(host):
    files, start = host
    write(files, {"a/one": b"1" * 3_000_000, "b": b"2", "empty": b""})
    _, peer = start()

    assert read_all(peer, b"b", b"gone", b"a/one", b"empty") == [b"2", None, b"1" * 3_000_000, b""]
    first, second = (file.size for file in peer.read([b"a/one", b"b"]))  # not read, so skipped
    assert (first, second) == (3_000_000, 1)


def test_nothing_beside_the_files_of_the_copy_is_read(host, tmp_path):
    files, start = host
    write(tmp_path, {"secret": b"s", "outside/secret": b"s"})
    write(files, {"a/one": b"1"})
    (files / "link").symlink_to(tmp_path / "secret")
    (files / "way").symlink_to(tmp_path / "outside")
    os.mkfifo(files / "pipe")
    _, peer = start()

    names = [b"../secret", b"a/../../secret", b"/etc/passwd", b"link", b"way/secret", b"a", b"pipe", b"", b"a//one"]
    assert read_all(peer, *names) == [None] * len(names)


def test_a_file_of_a_copy_in_the_making_is_given_once_it_is_whole(host, tmp_path):
    files, start = host
    (tmp_path / "READY").unlink()
    write(files, {"a": b"1"})
    _, peer = start()

    with contextlib.closing(peer.read([b"a", b"b", b"gone"])) as given:
        assert next(given).read(1) == b"1"
        write(tmp_path, {"whole": b"22"})
        (tmp_path / "whole").rename(files / "b")
        assert next(given).size == 2
        (tmp_path / "READY").touch()
        assert list(given) == [None]


def test_a_file_that_does_not_come_is_waited_for_only_so_long_and_others_are_not(host, tmp_path):
    files, start = host
    (tmp_path / "READY").unlink()
    write(files, {"a": b"1"})
    _, peer = start(timeout_s=0.2)

    assert read_all(peer, b"late", b"a", b"later") == [None, b"1", None]


def test_who_has_no_token_gets_nothing(host):
    files, start = host
    write(files, {"b": b"2"})
    _, peer = start()

    with pytest.raises(PeerGone, match="403"):
        read_all(replace(peer, token="other"), b"b")


def test_nothing_is_read_from_who_shows_another_certificate(host):
    files, start = host
    write(files, {"b": b"2"})
    (_, peer), (_, other) = start(), start()

    with pytest.raises(PeerGone, match="certificate verify failed"):
        read_all(replace(peer, port=other.port, token=other.token), b"b")


def test_a_host_that_goes_away_within_a_file_is_noticed(host):
    files, start = host
    write(files, {"large": b"\0" * _LARGE})
    process, peer = start()

    with contextlib.closing(peer.read([b"large"])) as given:
        file = next(given)
        assert file.read(1) == b"\0"
        process.kill()
        with pytest.raises(PeerGone):
            file.skip()


def test_what_another_host_has_is_not_read_from_the_store(server, pod, volume, host, use):
    files, start = host
    server.commit(FILES)
    write(files, {**FILES, "a/two": b"x" * 9000, "b": b"longer"})
    use(start()[1])

    code, noted = pod("fill", volume)

    assert (code, counts(noted)) == (0, (18_001, 0, 9000, 9001))
    assert contents(volume / "files") == FILES


def test_files_of_several_pieces_are_taken_and_compared(server, pod, volume, host, use):
    files, start = host
    content = os.urandom(20_000_000)
    server.commit({"good": content, "bad": content[::-1]})
    write(files, {"good": content, "bad": content})
    use(start()[1])

    code, noted = pod("fill", volume)

    assert (code, counts(noted)) == (0, (40_000_000, 0, 20_000_000, 20_000_000))
    assert contents(volume / "files") == {"good": content, "bad": content[::-1]}


def test_what_a_host_that_breaks_off_has_not_given_comes_from_the_store(server, pod, volume, tmp_path, use):
    server.commit(FILES)
    size = (9000).to_bytes(8, "big")
    begun = size + FILES["a/one"] + size + FILES["a/two"][:100]
    certificate = write_certificate(tmp_path / "certificate", "127.0.0.1")
    with serve(lambda _: Answer(body=begun, length=99_999), certificate=certificate) as running:
        port = int(running.url.rpartition(":")[2])
        use(Peer("127.0.0.1", port, "secret", _public_part(certificate)))

        code, noted = pod("fill", volume)

    assert (code, counts(noted)) == (0, (18_001, 0, 9000, 9001))
    assert contents(volume / "files") == FILES
    assert [request.body for request in running.requests] == [b"a/one\0a/two\0b"]


def test_a_host_that_does_not_answer_costs_nothing_but_the_try(server, pod, volume, host, use):
    _, start = host
    server.commit(FILES)
    process, peer = start()
    process.kill()
    process.join()
    use(peer)

    code, noted = pod("fill", volume)

    assert (code, counts(noted)) == (0, (18_001, 0, 0, 18_001))


def _public_part(certificate: Path) -> str:
    return "".join(certificate.read_text().partition("-----BEGIN CERTIFICATE-----")[1:])
