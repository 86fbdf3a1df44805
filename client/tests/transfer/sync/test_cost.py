"""What a small change of a large dataset costs: the ranges that it touches, and no others."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from client.tests.transfer.folders import OPTIONS
from nearline.content import range_deltas
from nearline.content.manifest import MIN_RANGE_ENTRIES, decode_root
from nearline.transfer.remote import manifests, objects
from nearline.transfer.remote.packing import KnownContent
from nearline.transfer.sync import put, status, upload

FOLDERS = 6


@pytest.fixture
def large(folder, server):
    """A folder whose tree has several ranges, synced and looked at once."""
    folder.write({f"{n // 500}/{n:05}": f"content {n}".encode() for n in range(FOLDERS * MIN_RANGE_ENTRIES)})
    folder.sync()
    folder.sync()
    return folder


@pytest.fixture
def read(monkeypatch):
    """The ids of the ranges that were read since."""
    ids = []
    for module in (manifests, objects):
        real = module.load_range

        def note(range_id, *given, real=real, **options):
            ids.append(range_id)
            return real(range_id, *given, **options)

        monkeypatch.setattr(module, "load_range", note)
    return ids


def ranges(server, position=-1):
    return decode_root(server.object_path("root", server.commits[position]["root"]).read_bytes())


def touched(server, path):
    return [row.range_id for row in ranges(server) if row.first_path <= path <= row.last_path]


def test_a_sync_without_changes_reads_no_range(large, server, read):
    assert len(ranges(server)) == 2
    assert large.sync().is_up_to_date
    assert status.get_status(large.workspace, server, OPTIONS).files == FOLDERS * MIN_RANGE_ENTRIES
    assert read == []


def test_an_edited_file_costs_its_range(large, server, read):
    mine = touched(server, b"3/01700")
    large.write({"3/01700": b"edited"}, mtime_ns=1_600_000_000_000_000_000)

    outcome = large.sync()

    assert (outcome.files_uploaded, outcome.bytes_uploaded) == (1, 6)
    assert set(read) == set(mine)
    assert server.tree()[b"3/01700"] == b"edited"


def test_edited_files_are_sent_as_what_they_change_of_a_range_that_the_store_has_whole(large, server, make_folder):
    mine = touched(server, b"3/01700")
    sizes = []
    for number in range(2):
        large.write({f"3/0170{number}": b"edited"}, mtime_ns=1_600_000_000_000_000_000)
        large.sync()
        (now,) = touched(server, b"3/01700")
        data = server.object_path("range", now).read_bytes()
        assert [range_deltas.find_base(data)] == mine
        sizes.append(len(data))

    assert sizes[0] < sizes[1] < 500
    assert server.tree() == large.files()
    other = make_folder("other")
    other.download()
    other.write({"3/01702": b"edited"})
    other.sync()
    (now,) = touched(server, b"3/01700")
    assert [range_deltas.find_base(server.object_path("range", now).read_bytes())] == mine
    assert server.tree() == other.files()


def test_a_server_that_takes_no_deltas_gets_whole_ranges(large, server, monkeypatch):
    start = server.start_upload
    monkeypatch.setattr(server, "start_upload", lambda *given: replace(start(*given), takes_deltas=False))
    large.write({"3/01700": b"edited"}, mtime_ns=1_600_000_000_000_000_000)

    large.sync()

    objects = [server.object_path("range", row.range_id).read_bytes() for row in ranges(server)]
    assert [range_deltas.find_base(data) for data in objects] == [None, None]
    assert server.tree() == large.files()


def test_whatever_the_stat_of_a_file_shows_is_looked_at(large, server):
    path = Path(os.fsdecode(large.path("3/01700")))
    before = path.stat()

    path.write_bytes(b"Content 1700")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert large.sync().files_uploaded == 1
    path.chmod(0o755)
    assert large.sync().files_uploaded == 1
    path.unlink()
    path.symlink_to("01701")
    assert large.sync().files_uploaded == 1
    path.unlink()
    assert large.sync().commit.removed == 1
    path.write_bytes(b"content 1700")
    assert large.sync().commit.added == 1

    assert server.tree() == large.files()


def test_a_file_that_moves_is_not_sent_again(large, server, read):
    mine = touched(server, b"3/01700")
    content = b"content 1700"
    large.remove("3/01700")
    large.write({"1/moved": content}, mtime_ns=1_600_000_000_000_000_000)
    expected = {*mine, *touched(server, b"1/00999")}

    outcome = large.sync()

    assert outcome.bytes_uploaded == 0
    assert outcome.commit.files == FOLDERS * MIN_RANGE_ENTRIES
    assert expected <= set(read)
    assert server.tree()[b"1/moved"] == content


def test_a_file_put_into_a_large_dataset_fetches_its_range_only(large, server, tmp_path, monkeypatch):
    monkeypatch.setattr(put, "_ALWAYS_FETCHED_BYTES", 0)
    monkeypatch.setattr(upload, "_NAMES_LOOKED_AT", 0)
    (tmp_path / "one").write_bytes(b"one")
    mine = [row for row in ranges(server) if row.range_id in touched(server, b"3/01700")]
    sizes = {row.range_id: server.object_path("range", row.range_id).stat().st_size for row in ranges(server)}
    root_size = server.object_path("root", server.commits[-1]["root"]).stat().st_size
    server.bytes_sent = 0

    outcome = put.put_files(server, "main", {b"3/01700": tmp_path / "one"}, options=OPTIONS)

    assert (outcome.files_uploaded, outcome.bytes_uploaded) == (1, 3)
    assert server.bytes_sent == root_size + sum(sizes[row.range_id] for row in mine)


def test_a_removed_file_fetches_its_range_only(large, server, monkeypatch):
    mine = touched(server, b"3/01700")
    expected = sum(server.object_path("range", range_id).stat().st_size for range_id in mine)
    expected += server.object_path("root", server.commits[-1]["root"]).stat().st_size
    server.bytes_sent = 0

    put.remove_files(server, "main", [b"3/01700"], options=OPTIONS)

    assert b"3/01700" not in server.tree()
    assert server.bytes_sent == expected


@pytest.mark.parametrize("asked_before", [0, 100], ids=["searched", "indexed"])
def test_the_first_place_of_a_content_counts_and_its_range_is_read_once(large, server, asked_before):
    rows = ranges(server)
    reads = []

    class Ranges:
        def peek_ids(self, range_id):
            return manifests.peek_ids(server.object_path("range", range_id).read_bytes())

        def load_range(self, range_id):
            reads.append(range_id)
            return range_deltas.read_range(server.object_path("range", range_id).read_bytes()).entries

    known = KnownContent(Ranges(), [row.range_id for row in rows])
    entries = Ranges().load_range(rows[1].range_id)
    reads.clear()

    assert [known.find_blob(number.to_bytes(32)) for number in range(asked_before)] == [None] * asked_before
    assert [known.find_blob(entry.content_id) for entry in entries] == [entry.blobs[0] for entry in entries]
    assert known.find_blob(bytes(32)) is None
    assert reads == [rows[1].range_id]
