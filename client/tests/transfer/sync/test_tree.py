"""Trees without a history: sent like commits, named by their content."""

import pytest

from client.tests.fake_server import FakeServer
from nearline.errors import Conflict
from nearline.transfer.sync.tree import send_tree

TIME_NS = 315_619_200 * 10**9


class TreeServer(FakeServer):
    """Keeps the roots of trees."""

    def __init__(self, folder):
        super().__init__(folder)
        self.roots = []

    def start_tree(self, client_id):
        return self.start_upload("main", client_id), self.roots[-1:]

    def save_tree(self, upload_id, root):
        for entry in self.entries(root):
            packs = [blob.pack.hex() for blob in entry.blobs if not self.object_path("pack", blob.pack.hex()).exists()]
            if packs:
                raise Conflict("Packs are missing.", code="datasets.pack_missing", details={"packs": packs})
        self.roots.append(root)
        return {"bundle": root}


@pytest.fixture
def server(tmp_path):
    return TreeServer(tmp_path / "server")


@pytest.fixture
def code(tmp_path):
    """Return a function that writes files and returns them by their path in the tree."""

    def write(**files):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        return {name.encode(): tmp_path / name for name in files}

    return write


def send(server, files, skipped=None):
    return send_tree(server, files, mtime_ns=TIME_NS, skipped=[] if skipped is None else skipped)["bundle"]


def test_the_same_files_are_the_same_tree_whenever_they_were_written(server, code, tmp_path):
    first = send(server, code(train="print(1)", model="x = 1"))
    (tmp_path / "train").unlink()

    assert send(server, code(train="print(1)", model="x = 1")) == first
    assert send(server, code(train="print(2)", model="x = 1")) != first
    assert {entry.mtime_ns for entry in server.entries(first)} == {TIME_NS}
    assert server.tree(first) == {b"train": b"print(1)", b"model": b"x = 1"}


def test_what_the_server_has_is_not_sent_again(server, code):
    send(server, code(train="print(1)", model="x" * 100_000))
    before = server.bytes_received

    send(server, code(train="print(2)", model="x" * 100_000))

    assert server.bytes_received - before < 2_000


def test_what_the_server_lost_is_sent_again(server, code):
    send(server, code(train="print(1)", model="x" * 100_000))
    with pytest.raises(Conflict):
        server.lose_packs(1)

    root = send(server, code(train="print(2)", model="x" * 100_000))

    assert server.tree(root) == {b"train": b"print(2)", b"model": b"x" * 100_000}


def test_what_cannot_be_carried_is_told_and_the_rest_is_sent(server, code, tmp_path):
    files = code(train="print(1)")
    skipped = []

    root = send(server, {**files, b"a//b": tmp_path / "train"}, skipped)

    assert [skip.path for skip in skipped] == [b"a//b"]
    assert server.tree(root) == {b"train": b"print(1)"}
