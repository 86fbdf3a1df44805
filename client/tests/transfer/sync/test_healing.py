"""Packs that were damaged in the store are whole again after a sync or a put of good copies."""

import os
import random
from pathlib import Path

import pytest

from client.tests.transfer.folders import OPTIONS
from nearline.content.packs import THRESHOLD_BYTES
from nearline.errors import Failed, NotFound, Unavailable
from nearline.transfer.remote.server import ObjectKind
from nearline.transfer.sync import put

FILES = {f"{n:03}": random.Random(n).randbytes(2000) for n in range(60)}
CONTENT = {os.fsencode(name): content for name, content in FILES.items()}


@pytest.fixture
def stored(folder):
    """A folder with a few packs of some thirty files each, synced."""
    folder.write(FILES).sync()
    return folder


def pack_of(server, name):
    """Return the path of the pack that holds a file, and where in it."""
    [entry] = [entry for entry in server.entries(server.commits[-1]["root"]) if entry.path == name]
    return server.object_path(ObjectKind.PACK, entry.blobs[0].pack.hex()), entry.blobs[0].offset


def spoil(server, *names):
    """Change a byte of each of these files in the store, as a failing disk would, and let the server find it."""
    for name in names:
        path, offset = pack_of(server, name)
        data = bytearray(path.read_bytes())
        data[offset] ^= 1
        path.write_bytes(data)
    server.report_damaged_packs([path.name for path in path.parent.iterdir()])


def lose(server, name):
    path, _ = pack_of(server, name)
    path.unlink()
    server.report_damaged_packs([path.name])


def test_a_damaged_pack_is_sent_again_by_a_sync_of_a_good_copy_without_a_commit(stored, server):
    path, _ = pack_of(server, b"003")
    whole = path.read_bytes()
    spoil(server, b"003")

    outcome = stored.sync()

    assert path.read_bytes() == whole
    assert server.list_damaged_packs() == []
    assert (outcome.packs_healed, outcome.damaged, outcome.is_up_to_date) == (1, (), False)
    assert len(server.commits) == 1
    assert stored.sync().is_up_to_date


@pytest.mark.parametrize("way", ["upload", "sync"])
def test_a_pack_that_is_gone_is_made_again_from_all_of_its_files(stored, server, way):
    lose(server, b"003")

    outcome = getattr(stored, way)()

    assert outcome.packs_healed == 1
    assert server.tree() == CONTENT


def test_damage_of_the_index_is_mended_too(stored, server):
    path, _ = pack_of(server, b"003")
    path.write_bytes(path.read_bytes()[:-10] + bytes(10))
    server.report_damaged_packs([path.name])

    assert stored.sync().packs_healed == 1
    assert server.list_damaged_packs() == []


def test_only_what_is_damaged_is_needed_from_here(stored, make_folder, server, tmp_path):
    spoil(server, b"003")
    (tmp_path / "good").write_bytes(FILES["003"])

    outcome = put.put_files(server, "main", {b"003": tmp_path / "good"}, options=OPTIONS)

    assert (outcome.packs_healed, outcome.commit) == (1, None)
    assert server.tree() == CONTENT


def test_a_copy_under_another_name_heals(stored, server, tmp_path):
    spoil(server, b"003")
    (tmp_path / "other").write_bytes(FILES["003"])

    put.put_files(server, "main", {b"backup/other": tmp_path / "other"}, options=OPTIONS)

    assert server.list_damaged_packs() == []
    assert server.tree() == {**CONTENT, b"backup/other": FILES["003"]}


def test_a_pack_that_only_older_commits_need_is_healed(stored, server):
    stored.write({"003": b"edited"}, mtime_ns=1_600_000_000_000_000_000).sync()
    old = server.commits[0]["root"]
    [entry] = [entry for entry in server.entries(old) if entry.path == b"003"]
    path = server.object_path(ObjectKind.PACK, entry.blobs[0].pack.hex())
    data = bytearray(path.read_bytes())
    data[entry.blobs[0].offset] ^= 1
    path.write_bytes(data)
    server.report_damaged_packs([path.name])
    stored.write({"kept aside": FILES["003"]})

    outcome = stored.sync()
    again = stored.sync()

    assert (outcome.packs_healed + again.packs_healed, again.damaged) == (1, ())
    assert server.tree(old) == CONTENT


def test_a_large_file_is_healed_piece_by_piece(folder, server):
    content = random.Random(1).randbytes(THRESHOLD_BYTES + (4 << 20))
    folder.write({"large": content}).sync()
    [entry] = server.entries(server.commits[-1]["root"])
    assert len(entry.blobs) > 1
    path = server.object_path(ObjectKind.PACK, entry.blobs[-1].pack.hex())
    data = bytearray(path.read_bytes())
    data[entry.blobs[-1].offset + 5] ^= 1
    path.write_bytes(data)
    server.report_damaged_packs([path.name])

    assert folder.sync().packs_healed == 1
    assert server.tree() == {b"large": content}


def test_a_file_whose_good_copy_is_elsewhere_is_named_and_nothing_wrong_is_sent(stored, make_folder, server, tmp_path):
    spoil(server, b"003", b"004")
    path, _ = pack_of(server, b"003")
    damaged = path.read_bytes()
    (tmp_path / "good").write_bytes(FILES["003"])

    outcome = put.put_files(server, "main", {b"003": tmp_path / "good"}, options=OPTIONS)

    assert (outcome.packs_healed, outcome.damaged) == (0, ("004",))
    assert path.read_bytes() == damaged
    assert [pack.name for pack in server.list_damaged_packs()] == [path.name]


def test_new_files_do_not_rely_on_content_that_is_damaged(stored, make_folder, server, tmp_path):
    spoil(server, b"003", b"004")
    (tmp_path / "good").write_bytes(FILES["003"])

    put.put_files(server, "main", {b"new name": tmp_path / "good"}, options=OPTIONS)

    [entry] = [entry for entry in server.entries(server.commits[-1]["root"]) if entry.path == b"new name"]
    assert entry.blobs[0].pack.hex() not in {pack.name for pack in server.list_damaged_packs()}


@pytest.mark.parametrize("method", ["put", "complete_packs"])
def test_what_was_broken_off_is_done_by_the_next_sync(stored, server, method):
    spoil(server, b"003")
    server.fail(method, *[Unavailable("gone") for _ in range(1000)])
    with pytest.raises(Unavailable):
        stored.sync()
    server.before.clear()
    assert len(server.list_damaged_packs()) == 1

    assert stored.sync().packs_healed == 1
    assert server.tree() == CONTENT
    assert server.list_damaged_packs() == []


def test_a_clone_that_meets_damage_names_the_pack_and_lets_the_server_know(stored, make_folder, server):
    path, offset = pack_of(server, b"003")
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)
    other = make_folder("other")

    with pytest.raises(Failed, match="damaged in the store") as raised:
        other.sync()

    assert "nearline data sync" in raised.value.hint
    assert [pack.name for pack in server.list_damaged_packs()] == [path.name]
    assert not Path(os.fsdecode(other.path("003"))).exists()
    stored.sync()
    other.sync()
    assert other.files() == CONTENT


def test_a_clone_that_misses_a_pack_lets_the_server_know(stored, make_folder, server):
    path, _ = pack_of(server, b"003")
    path.unlink()

    with pytest.raises(NotFound):
        make_folder("other").sync()

    assert [pack.name for pack in server.list_damaged_packs()] == [path.name]
