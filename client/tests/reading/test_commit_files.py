"""Files of a commit that are read from the store: right or refused, few reads, little memory, little of the tree."""

import os
import pickle
from functools import partial

import pytest

from client.tests.fake_server import FakeServer
from client.tests.transfer.folders import Folder
from nearline.content.packs import MAX_BLOB_BYTES
from nearline.content.retry import Waiting
from nearline.errors import Failed, InvalidRequest, NotFound, Unavailable
from nearline.reading.commit_files import CommitFiles, OutageWarning
from nearline.transfer.remote.server import ObjectKind

PICTURES = {f"train/{number:03}.png".encode(): os.urandom(3_000) for number in range(200)}
LARGE = os.urandom(3 * MAX_BLOB_BYTES // 2)


@pytest.fixture
def server(tmp_path):
    return FakeServer(tmp_path / "server")


@pytest.fixture
def commit(tmp_path, server):
    """Return a function that commits files and opens the commit."""

    def make(files, **more) -> CommitFiles:
        folder = Folder(tmp_path / "folder", server).write(files)
        folder.sync()
        return open_commit(server, **more)

    return make


def open_commit(server, **more) -> CommitFiles:
    return CommitFiles(server.get_commit("main"), partial(FakeServer, server.folder), **more)


def damage(server) -> None:
    for pack in server.object_path(ObjectKind.PACK, "").iterdir():
        pack.write_bytes(bytes(len(pack.read_bytes())))


def test_a_file_is_read_by_its_path(commit):
    files = commit(PICTURES)

    assert len(files) == 200
    assert files.read("train/007.png") == PICTURES[b"train/007.png"]
    assert files.read("/train/007.png/") == PICTURES[b"train/007.png"]


@pytest.mark.parametrize(
    "path", ["", "train", "train/", "train/7", "../train/007.png", "train//007.png", "x" * 5000, "\ud800"]
)
def test_what_is_no_file_is_not_found(commit, path):
    with pytest.raises(NotFound):
        commit(PICTURES).read(path)


def test_a_store_that_stays_away_is_waited_for_as_long_as_it_was_said(commit, server):
    commit(PICTURES)
    files = CommitFiles(server.get_commit("main"), lambda: server, max_wait_s=0)
    calls = server.calls["sign_downloads"]
    server.fail("sign_downloads", *[Unavailable("The store does not answer.", code="client.unavailable")] * 3)

    with pytest.raises(Unavailable, match="The store does not answer") as raised:
        files.read("train/007.png")

    assert raised.value.code == "client.unavailable"
    assert server.calls["sign_downloads"] == calls + 1


def test_an_empty_commit_and_an_empty_file_can_be_read(commit):
    files = commit({b"empty": b""})

    assert (files.read("empty"), list(files.stream())) == (b"", [("empty", b"")])


def test_a_link_is_read_as_the_file_that_it_leads_to(commit, tmp_path):
    (tmp_path / "folder" / "real").mkdir(parents=True)
    for name, target in (("file", "real/a"), ("folder", "real"), ("real/up", "../file"), ("loop", "loop"), ("no", "x")):
        (tmp_path / "folder" / name).symlink_to(target)
    files = commit({b"real/a": b"content"})

    assert [files.read(path) for path in ("file", "folder/a", "folder/up")] == [b"content"] * 3
    assert [files.find(path) for path in ("loop", "no", "folder")] == [None] * 3


def test_a_large_file_is_read_in_parts_and_whole(commit):
    files = commit({b"large": LARGE})

    with files.open("large") as file:
        assert file.seek(-1000, os.SEEK_END) == len(LARGE) - 1000
        assert file.read() == LARGE[-1000:]
        file.seek(MAX_BLOB_BYTES - 5)
        assert file.read(10) == LARGE[MAX_BLOB_BYTES - 5 : MAX_BLOB_BYTES + 5]
        assert file.seek(len(LARGE) + 1) == len(LARGE) + 1
        assert file.read() == b""
        with pytest.raises(OSError, match="before the start"):
            file.seek(-1)
    assert files.read("large") == LARGE


def test_with_less_memory_than_a_file_has_it_is_read_all_the_same(commit):
    files = commit({b"large": LARGE, **PICTURES}, memory_bytes=1 << 20)

    assert files.read("large") == LARGE
    assert dict(files.stream()) == {"large": LARGE, **{os.fsdecode(path): data for path, data in PICTURES.items()}}


def test_damaged_content_is_refused_and_never_given(commit, server):
    files = commit({b"large": LARGE, **PICTURES})
    damage(server)

    with pytest.raises(Failed) as refusal:
        files.read("train/007.png")
    assert refusal.value.code == "client.damaged"
    with pytest.raises(Failed), files.open("large") as file:
        file.read(10)
    with pytest.raises(Failed):
        next(files.stream())


def test_one_file_costs_one_range_and_one_small_read(commit, server):
    files = commit(PICTURES)
    counting = FakeServer(server.folder)
    files = CommitFiles(files.commit, lambda: counting)

    files.read("train/007.png")
    files.read("train/007.png")

    assert counting.calls["get"] == 3  # root, range, content
    assert counting.bytes_sent < 30_000


def test_a_stream_gives_every_file_in_order_with_few_reads(commit, server):
    commit(PICTURES)
    counting = FakeServer(server.folder)
    files = CommitFiles(server.get_commit("main"), lambda: counting)

    assert [path for path, _ in files.stream()] == sorted(os.fsdecode(path) for path in PICTURES)
    assert counting.calls["get"] < 20


def test_a_stream_gives_what_matches(commit):
    files = commit({**PICTURES, b"notes.txt": b"x"})

    assert dict(files.stream("*.txt")) == {"notes.txt": b"x"}
    assert list(files.paths("train/00?.png")) == [f"train/00{number}.png" for number in range(10)]


def test_shards_of_a_shuffled_stream_give_every_file_once_and_the_same_again(commit):
    files = commit(PICTURES)
    shards = [[path for path, _ in files.stream(shuffle=7, shard=shard, shards=3)] for shard in range(3)]

    assert sorted(path for shard in shards for path in shard) == list(files.paths())
    assert all(shards)
    assert [path for path, _ in files.stream(shuffle=7, shard=1, shards=3)] == shards[1]
    assert [path for path, _ in files.stream(shuffle=8, shard=1, shards=3)] != shards[1]


@pytest.mark.parametrize(("shard", "shards"), [(1, 1), (-1, 2), (0, 0)])
def test_a_shard_that_is_none_is_refused(commit, shard, shards):
    with pytest.raises(InvalidRequest, match=f"no shard {shard} of {shards}"):
        next(commit(PICTURES).stream(shard=shard, shards=shards))


def test_another_process_opens_a_connection_of_its_own(commit):
    files = commit(PICTURES)
    files.read("train/007.png")

    again = pickle.loads(pickle.dumps(files))

    assert again.read("train/007.png") == PICTURES[b"train/007.png"]
    child = os.fork()
    if child == 0:
        os._exit(0 if files.read("train/008.png") == PICTURES[b"train/008.png"] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_after_it_was_closed_it_opens_again(commit):
    with commit(PICTURES) as files:
        files.read("train/007.png")

    assert files.read("train/007.png") == PICTURES[b"train/007.png"]


def test_an_outage_is_told_once_for_as_long_as_it_is_waited_for(caplog):
    now = 0.0
    warn = OutageWarning(clock=lambda: now)

    for waited_s in (0.5, 2.9, 3.0, 10.0, 300.0, 599.0):
        now = waited_s
        warn(Waiting("The store does not answer.", waited_s, 600.0))
    now = 700.0
    warn(Waiting("It is away again.", 4.0, 600.0))

    assert [(record.name, record.levelname, record.message) for record in caplog.records] == [
        ("nearline", "WARNING", "The store does not answer. Reading is tried again, for at most 597 s more."),
        ("nearline", "WARNING", "It is away again. Reading is tried again, for at most 596 s more."),
    ]
