"""Storms, lies, lost answers, damage: each is survived, or told in one sentence with nothing half done."""

import os
import random
import threading

import pytest

from client.tests.fake_server import FakeServer
from client.tests.transfer.folders import Folder
from nearline.content import packs
from nearline.content.errors import BadManifest
from nearline.content.manifest import BlobRef, Entry, EntryKind, build_tree
from nearline.errors import Conflict, Denied, Failed, ServerFailure, Unavailable
from nearline.transfer.remote.manifests import Manifests
from nearline.transfer.remote.server import ObjectKind

FILES = {f"{n:03}": random.Random(n).randbytes(2000) for n in range(200)}
CONTENT = {os.fsencode(name): content for name, content in FILES.items()}


@pytest.fixture
def stored(folder):
    """A folder with about seven packs, synced."""
    folder.write(FILES).sync()
    return folder


def storm(count, error=Unavailable):
    return [error("busy", code="client.unavailable") for _ in range(count)]


@pytest.mark.parametrize(
    "method",
    ["send", "offer_packs", "complete_packs", "offer_manifests", "commit"],
)
def test_a_storm_of_refusals_while_uploading_is_outlasted(folder, server, method):
    server.fail(method, *storm(5), *storm(2, ServerFailure))

    folder.write(FILES).sync()

    assert server.tree() == CONTENT
    assert len(server.commits) == 1


@pytest.mark.parametrize("method", ["send", "sign_downloads"])
def test_a_storm_of_refusals_while_downloading_is_outlasted(stored, make_folder, server, method):
    server.fail(method, *storm(7))
    other = make_folder("other")

    other.sync()

    assert other.files() == CONTENT


def test_a_server_that_stays_away_ends_the_sync_with_its_error_and_the_next_one_finishes(folder, server):
    folder.write(FILES)
    server.fail("put", *storm(1000))
    with pytest.raises(Unavailable, match="busy"):
        folder.sync()
    server.before.clear()

    folder.sync()

    assert server.tree() == CONTENT
    assert len(server.commits) == 1


def test_what_was_stored_before_a_failure_is_not_sent_again(folder, server):
    folder.write(FILES)
    server.fail("commit", Denied("You may not.", code="accounts.denied"))
    with pytest.raises(Denied):
        folder.sync()
    received, gets = server.bytes_received, server.calls["offer_packs"]

    outcome = folder.sync()

    assert server.tree() == CONTENT
    assert server.bytes_received == received
    assert outcome.bytes_uploaded == 0
    assert server.calls["offer_packs"] == gets


def test_a_pack_that_arrived_but_was_not_acknowledged_is_not_sent_again(folder, server):
    folder.write(FILES)
    server.fail("complete_packs", *[Denied("no", code="x") for _ in range(50)])
    with pytest.raises(Denied):
        folder.sync()
    for thread in threading.enumerate():
        if thread.name.startswith("send"):  # it ends by itself what was on its way
            thread.join()
    server.before.clear()
    stored = {path.name for path in server.object_path(ObjectKind.PACK, "").iterdir()}
    received = server.bytes_received

    folder.sync()

    new = {path.name for path in server.object_path(ObjectKind.PACK, "").iterdir()} - stored
    assert server.tree() == CONTENT
    assert server.bytes_received - received < 150_000 + sum(
        server.object_path(ObjectKind.PACK, name).stat().st_size for name in new
    )
    assert len(stored) >= 2
    assert len(new) <= 7 - len(stored)


def test_addresses_that_expire_while_packs_are_sent_are_asked_for_again(folder, server):
    server.fail("put", None, expire(server), None, expire(server))

    folder.write(FILES).sync()

    assert server.tree() == CONTENT


def test_addresses_that_expire_while_packs_are_fetched_are_asked_for_again(stored, make_folder, server):
    server.fail("get", None, None, expire(server), None, expire(server))
    other = make_folder("other")

    other.sync()

    assert other.files() == CONTENT


def expire(server):
    def step():
        server.signature_age += 1

    return step


def test_a_lost_answer_to_a_commit_makes_one_commit(folder, server):
    server.fail("committed", *storm(2))

    outcome = folder.write(FILES).sync()

    assert len(server.commits) == 1
    assert outcome.commit.id == server.commits[0]["id"]


def test_a_store_that_says_yes_and_stores_nothing_is_noticed_and_sent_again(folder, server):
    server.fail("put", lambda: "lie", None, lambda: "lie")

    folder.write(FILES).sync()

    assert server.tree() == CONTENT
    assert len(server.commits) == 1


def test_packs_that_the_server_lost_after_they_were_stored_are_sent_again(folder, server):
    folder.write(FILES)
    server.fail("commit", lambda: server.lose_packs(2))

    folder.sync()

    assert server.tree() == CONTENT
    assert len(server.commits) == 1


def flip(data):
    return bytes([data[0] ^ 1]) + data[1:]


@pytest.mark.parametrize("damage", [flip, lambda data: data[:-1], lambda data: b"", lambda data: data + b"x"])
def test_bytes_damaged_on_their_way_are_fetched_again(stored, make_folder, server, damage):
    damaged = set()

    def damage_first(data):
        if data in damaged:
            return data
        damaged.add(data)
        return damage(data)

    server.fail("get", *[lambda: damage_first] * 100)
    other = make_folder("other")

    other.sync()

    assert other.files() == CONTENT
    assert damaged


@pytest.mark.parametrize("kind", ["pack", "range", "root"])
def test_what_is_damaged_in_the_store_is_refused_and_nothing_wrong_becomes_visible(stored, make_folder, server, kind):
    victim = min(server.object_path(kind, "").iterdir())
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    other = make_folder("other")

    with pytest.raises(Failed, match="is damaged in the store"):
        other.sync()

    assert all(CONTENT[path] == content for path, content in other.files().items())
    assert other.workspace.state.commit is None
    assert list(other.workspace.temporary.iterdir()) == []


def test_damaged_files_of_our_own_folder_are_thrown_away_and_made_anew(stored, server):
    for path in stored.workspace.manifests.iterdir():
        path.write_bytes(b"damaged")
    stored.workspace.cache_path.write_bytes(b"damaged" * 1000)
    stored.write({"new": b"1"})

    stored.sync()

    assert server.tree() == CONTENT | {b"new": b"1"}
    assert len(server.commits) == 2


@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_root_that_is_no_id_names_no_file_of_this_machine(stored, server, tmp_path, is_absolute):
    mine = tmp_path / "mine"
    mine.write_text("mine")
    root = str(mine) if is_absolute else os.path.relpath(mine, stored.workspace.manifests)

    with pytest.raises(BadManifest, match="is not the id of a root"):
        Manifests(server, stored.workspace.manifests).load_root(root)

    assert mine.read_text() == "mine"


def test_a_download_that_was_broken_off_goes_on_where_it_was(stored, make_folder, server):
    server.fail("get", *[None] * 5, *[Denied("no", code="x") for _ in range(50)])
    other = make_folder("other")
    with pytest.raises(Denied):
        other.sync()
    server.before.clear()
    here = len(other.files())
    sent = server.bytes_sent

    other.sync()

    assert here > 0
    assert other.files() == CONTENT
    assert server.bytes_sent - sent <= (len(FILES) - here) * 2000 + 64 * 1024


def test_no_more_transfers_run_at_once_than_asked_for(folder, make_folder, server):
    folder.write(FILES).sync()
    make_folder("other").sync()

    assert server.most_at_once <= 4


def test_a_file_that_changes_while_it_is_read_is_read_again(folder, server, monkeypatch):
    folder.write({"a": b"first"})
    real_read = os.read
    edits = iter([b"second!", b"third"])

    def read_while_someone_writes(descriptor, size):
        data = real_read(descriptor, size)
        if data in {b"first", b"second!"}:
            with open(folder.path("a"), "wb") as file:
                file.write(next(edits))
        return data

    monkeypatch.setattr(os, "read", read_while_someone_writes)

    folder.sync()

    assert server.tree() == {b"a": b"third"}


def test_a_file_that_never_stops_changing_is_refused_by_name(folder, server, monkeypatch):
    folder.write({"log": b"0"})
    real_read = os.read

    def read_while_someone_writes(descriptor, size):
        data = real_read(descriptor, size)
        with open(folder.path("log"), "ab") as file:
            file.write(b"more")
        return data

    monkeypatch.setattr(os, "read", read_while_someone_writes)

    with pytest.raises(Failed, match="'log' keeps changing while it is read"):
        folder.sync()

    assert server.commits == []


def test_a_local_edit_between_scan_and_download_is_kept(stored, make_folder, server):
    other = make_folder("other")
    other.sync()
    stored.write({"000": b"theirs"}, mtime_ns=1_600_000_000_000_000_000).sync()
    server.fail("get", None, lambda: other.write({"000": b"edited meanwhile"}) and None)
    other.workspace.manifests.joinpath("x").write_bytes(b"")

    outcome = other.sync()

    assert other.files()[b"000"] == b"edited meanwhile"
    assert other.files()[b"000.conflict"] == b"theirs"
    assert outcome.conflicts == ("000",)


def commit_names(server, files):
    """Commit a tree as a program of someone else might, with names that our own sync would refuse."""
    builder = packs.PackBuilder()
    blobs = {name: builder.add(content) for name, content in files.items()}
    pack = builder.finish()
    entries = [
        Entry(
            name,
            0o644,
            b.size,
            0,
            b.content_id,
            EntryKind.FILE,
            (BlobRef(b.content_id, pack.sha256, b.offset, b.size),),
        )
        for name, b in sorted(blobs.items())
    ]
    tree = build_tree(entries)
    upload = server.start_upload("main", "test").id
    server.object_path(ObjectKind.PACK, pack.name).write_bytes(pack.data)
    server.complete_packs(upload, [pack.name])
    for name, data in tree.objects.items():
        server.object_path(ObjectKind.RANGE, name).write_bytes(data)
    server.object_path(ObjectKind.ROOT, tree.root_id).write_bytes(tree.root)
    server.commit(upload, root=tree.root_id, expected_head=None, message="", source="cli", idempotency_key="k")


def test_names_that_the_target_cannot_hold_apart_are_refused_before_anything_is_written(folder, server, monkeypatch):
    commit_names(server, {b"README": b"1", b"Readme": b"2", "\u00e9".encode(): b"3", "e\u0301".encode(): b"4"})
    real = os.path.lexists
    # A file system that folds case finds the probe under another spelling.
    monkeypatch.setattr(os.path, "lexists", lambda path: b"/cASE-" in os.fsencode(path) or real(path))

    with pytest.raises(Conflict, match="The file system of this folder cannot hold this commit") as caught:
        folder.download()

    assert caught.value.details["groups"] == [["README", "Readme"], [r"e\u0301", r"\u00e9"]]
    assert folder.files() == {}


def test_on_a_file_system_that_knows_case_such_names_are_carried(folder, server):
    commit_names(server, {b"README": b"1", b"Readme": b"2"})

    folder.download()

    assert folder.files() == {b"README": b"1", b"Readme": b"2"}
    assert folder.sync().is_up_to_date


def test_a_tree_that_holds_such_names_already_can_still_be_added_to(folder, server):
    commit_names(server, {b"README": b"1", b"Readme": b"2"})
    folder.download()

    folder.write({"more": b"3"}).sync()

    assert set(server.tree()) == {b"README", b"Readme", b"more"}


def test_a_link_in_the_way_is_never_written_through(stored, make_folder, server, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    stored.write({"sub/file": b"1"}).sync()
    other = make_folder("other")
    os.symlink(outside, other.path("sub"))

    with pytest.raises(Conflict, match="'sub' is in the way"):
        other.sync()

    assert list(outside.iterdir()) == []


def test_a_hostile_pack_of_the_right_name_cannot_smuggle_other_bytes(stored, make_folder, server):
    """Each blob is checked by its own hash, so a pack whose name lies gets nowhere."""
    victim = min(server.object_path("pack", "").iterdir())
    blobs = packs.read_footer(victim.read_bytes())
    victim.write_bytes(b"evil" * (victim.stat().st_size // 4 + 1))
    other = make_folder("other")

    with pytest.raises(Failed):
        other.sync()

    assert len(blobs) > 1
    assert b"evil" not in b"".join(other.files().values())


def test_a_sync_that_was_never_finished_leaves_the_server_without_a_trace_of_a_commit(tmp_path, folder, server):
    folder.write(FILES)
    server.fail("offer_manifests", *storm(1000))

    with pytest.raises(Unavailable):
        folder.sync()

    assert server.commits == []
    assert Folder(tmp_path / "fresh", FakeServer(server.folder)).sync().is_up_to_date
