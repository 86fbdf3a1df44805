"""A commit whose copy is being filled: what is there is read from the copy, the rest from the store, nothing wrong."""

import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from client.tests.fake_server import FakeServer
from client.tests.transfer.folders import Folder
from nearline.content.packs import MAX_BLOB_BYTES
from nearline.errors import Unavailable
from nearline.reading.commit_files import CommitFiles
from nearline.reading.early import CopyReader

FILES = {f"train/{number:03}.png".encode(): bytes([number]) * 3_000 for number in range(100)}
PATHS = sorted(path.decode() for path in FILES)


@dataclass
class Wanted:
    """What the platform was told; it may be away."""

    packs: list = field(default_factory=list)
    is_told: threading.Event = field(default_factory=threading.Event)
    is_away: bool = False
    before: Callable = lambda: None

    def __call__(self, packs):
        self.before()
        if self.is_away:
            raise Unavailable("away")
        self.packs.append(packs)
        self.is_told.set()


class EarlyFiles(CommitFiles):
    """Reads a copy in a folder."""

    def near(self, folder, wanted):
        self._copy, self._wanted = folder, wanted
        return self

    def _near(self, storage, blobs):
        self.store = blobs
        return CopyReader(self._copy, blobs, self._wanted)


@pytest.fixture
def wanted():
    return Wanted()


@pytest.fixture
def open_early(tmp_path, wanted):
    """Return a function that commits files and opens the commit with a copy that holds some of them."""

    def make(files, *, there=()):
        server = FakeServer(tmp_path / "server")
        Folder(tmp_path / "folder", server).write(files).sync()
        copy = tmp_path / "copy"
        for path in there:
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(tmp_path / "folder" / path, copy / path)
        early = EarlyFiles(server.get_commit("main"), lambda: server).near(copy, wanted)
        next(early.paths())  # from now on the tree costs nothing
        server.bytes_sent = 0
        return early, server, copy

    return make


def test_what_is_there_costs_the_store_nothing(open_early, wanted):
    early, server, _ = open_early(FILES, there=PATHS)

    assert {path.encode(): content for path, content in early.stream(shuffle=3)} == FILES
    assert (server.bytes_sent, wanted.packs) == (0, [])


def test_what_is_not_there_comes_from_the_store_and_is_wanted_first(open_early, wanted):
    early, server, _ = open_early(FILES, there=PATHS[:50])

    assert {path.encode(): content for path, content in early.stream()} == FILES
    assert server.bytes_sent == 50 * 3_000
    assert wanted.is_told.wait(120)  # beside the reads
    assert len(wanted.packs) == 1


def test_what_arrives_meanwhile_is_read_from_the_copy(open_early, tmp_path):
    early, server, copy = open_early(FILES)
    stream = early.stream()
    first = next(stream)
    shutil.copytree(tmp_path / "folder", copy, dirs_exist_ok=True)

    assert dict([first, *stream]) == {path.decode(): content for path, content in FILES.items()}
    assert server.bytes_sent == 100 * 3_000


@pytest.mark.parametrize("damage", [b"\x00" * 3_000, b"", b"\x07" * 2_999])
def test_what_is_wrong_in_the_copy_is_never_given(open_early, damage):
    early, _, copy = open_early(FILES, there=PATHS)
    (copy / "train/007.png").write_bytes(damage)

    assert early.read("train/007.png") == FILES[b"train/007.png"]
    with early.open("train/007.png") as file:
        assert file.read() == FILES[b"train/007.png"]


def test_a_large_file_is_read_in_parts_from_the_copy(open_early):
    large = bytes(range(256)) * (MAX_BLOB_BYTES * 3 // 512)
    early, server, _ = open_early({b"large": large}, there=["large"])

    with early.open("large") as file:
        file.seek(MAX_BLOB_BYTES + 1)
        assert file.read() == large[MAX_BLOB_BYTES + 1 :]
    assert server.bytes_sent == 0


def test_a_platform_that_is_away_delays_nothing(open_early, wanted):
    wanted.is_away = True
    early, _, _ = open_early(FILES)

    assert {path.encode(): content for path, content in early.stream()} == FILES


def test_a_platform_that_does_not_answer_delays_nothing(open_early, wanted):
    answer = threading.Event()
    wanted.before = answer.wait
    early, _, _ = open_early(FILES)

    assert {path.encode(): content for path, content in early.stream()} == FILES
    assert wanted.packs == []
    answer.set()
