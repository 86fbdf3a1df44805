"""A sync brings folder and dataset together, as one commit or none."""

import contextlib
import os
import random
import time
from pathlib import Path

import pytest

from client.tests.transfer.folders import LINK, OPTIONS, Folder
from nearline.content.entries import Entry
from nearline.content.hashing import EMPTY_ID
from nearline.content.manifest import build_tree
from nearline.errors import Conflict, Failed
from nearline.transfer.local.statcache import StatCache
from nearline.transfer.local.workspace import State, Workspace
from nearline.transfer.remote.manifests import check_root
from nearline.transfer.remote.server import ObjectKind
from nearline.transfer.sync import put

ODD_NAMES = {
    b"with space.txt": b"1",
    b"a+b.txt": b"2",
    b"new\nline": b"3",
    b"\xff\xfe.bin": b"4",
    "d\u00e9j\u00e0/vu".encode(): b"5",
    b"-rf": b"6",
    b"deep/er/and/deeper": b"7",
    b"empty": b"",
}


def test_the_first_sync_stores_every_byte_as_one_commit(folder, server):
    folder.write({"a.txt": b"alpha", "b/c.txt": b"gamma", "empty": b""})

    outcome = folder.sync(message="first")

    assert server.tree() == {b"a.txt": b"alpha", b"b/c.txt": b"gamma", b"empty": b""}
    assert [(c["message"], c["files"], c["parent"]) for c in server.commits] == [("first", 3, None)]
    assert (outcome.commit.files, outcome.files_uploaded, outcome.bytes_uploaded) == (3, 3, 10)
    assert folder.workspace.state == State(server.commits[0]["id"], server.commits[0]["root"])


def test_a_sync_without_changes_makes_no_commit_and_opens_no_session(folder, server):
    folder.write({"a": b"1"})
    folder.sync()
    server.calls.clear()

    outcome = folder.sync()

    assert outcome.is_up_to_date
    assert len(server.commits) == 1
    assert dict(server.calls) == {"list_branches": 1, "list_damaged_packs": 1}


def test_a_sync_that_is_refused_says_what_stays_and_its_repetition_sends_nothing_again(folder, server):
    folder.write({"a": b"x" * 150_000, "b": b"y"})
    server.fail("commit", Conflict("The dataset is being deleted.", hint="Restore it."))

    with pytest.raises(Conflict) as refusal:
        folder.sync()
    sent = server.bytes_received
    outcome = folder.sync()

    stays = "that were sent stay in the store for a day: the next sync does not send them again."
    assert refusal.value.hint.startswith("Restore it. 0.")
    assert refusal.value.hint.endswith(f" MB {stays}") or refusal.value.hint.endswith(f" B {stays}")
    assert (outcome.bytes_uploaded, server.tree()[b"b"]) == (0, b"y")
    assert server.bytes_received - sent < 2_000


def test_a_refusal_by_the_limit_says_that_itself_and_one_before_anything_was_sent_has_nothing_to_say(folder, server):
    folder.write({"a": b"1"})
    refusals = [Conflict("Full.", code="datasets.storage_limit_reached", hint="Delete."), Conflict("Gone.", hint="No.")]
    server.fail("commit", refusals[0])
    server.fail("list_branches", refusals[1])

    hints = []
    for _ in refusals:
        with pytest.raises(Conflict) as refusal:
            folder.sync()
        hints.append(refusal.value.hint)

    assert hints == ["No.", "Delete."]


def digests(folder):
    """Return what the cache knows of ranges, and whether all ranges of the synced tree are among them."""
    with contextlib.closing(StatCache(folder.workspace.cache_path)) as cache:
        known = cache.list_digests()
    tree = check_root(root := folder.workspace.state.root, (folder.workspace.manifests / root).read_bytes())
    return known, {row.range_id for row in tree} == set(known)


FEW_FILES = {"a": b"1", "b/c": b"2", "b/d": b"3", "link": b"4", "z": b"5"}


@pytest.mark.parametrize(
    ("write", "remove"),
    [({"b/c": b"edited"}, ()), ({"b/cc": b"added", "empty": b""}, ()), ({}, ("a", "b/d")), ({"b/d": b"x"}, ("a",))],
    ids=["edited", "added", "removed", "edited and removed"],
)
def test_after_a_commit_the_next_scan_compares_no_range_again(folder, write, remove):
    folder.write(FEW_FILES).sync()
    folder.sync()
    folder.write(write).remove(*remove)

    assert folder.sync().commit is not None

    known, is_complete = digests(folder)
    assert is_complete
    assert folder.sync().is_up_to_date
    assert digests(folder) == (known, True)


def test_what_a_file_is_now_is_not_relied_on_when_it_may_change_without_a_trace(folder):
    folder.write(FEW_FILES).sync()
    folder.sync()
    folder.write({"b/c": b"fresh"}, mtime_ns=time.time_ns() + 10**12)

    assert folder.sync().commit is not None

    assert digests(folder) == ({}, False)


def test_a_range_with_a_file_that_is_ignored_here_has_to_be_compared(folder, server):
    folder.write(FEW_FILES).sync()
    folder.write({"z": b"edited", ".nearlineignore": b"a\n"})

    assert folder.sync().commit is not None

    assert b"a" in server.tree()
    assert digests(folder) == ({}, False)


def test_what_others_committed_is_compared_after_it_was_fetched(make_folder):
    one, other = make_folder("one"), make_folder("other")
    one.write(FEW_FILES).sync()
    other.sync()
    other.write({"a": b"theirs"}).sync()
    one.write({"z": b"ours"})

    assert one.sync().files_downloaded == 1

    assert digests(one) == ({}, False)
    assert one.sync().is_up_to_date


def test_files_that_did_not_change_are_never_read_again(folder, monkeypatch):
    folder.write({f"{n:03}": b"content" for n in range(50)})
    folder.sync()
    read = []
    real_read = os.read
    monkeypatch.setattr(os, "read", lambda *arguments: read.append(arguments) or real_read(*arguments))

    for _ in range(3):
        folder.sync()

    assert read == []


def test_what_is_known_of_a_removed_file_is_forgotten(folder):
    folder.write({"a": b"1", "b": b"2", "c": b"3"})
    folder.sync()
    folder.remove("b")

    folder.sync()

    with contextlib.closing(StatCache(folder.workspace.cache_path)) as cache:
        assert [known.path for known in cache.list_files()] == [b"a", b"c"]


def test_an_empty_folder_makes_no_commit(folder, server):
    assert folder.sync().is_up_to_date
    assert server.commits == []


def test_a_touched_file_is_not_a_change(folder, server):
    folder.write({"a": b"1"})
    folder.sync()
    folder.write({"a": b"1"}, mtime_ns=1_600_000_000_000_000_000)

    assert folder.sync().is_up_to_date
    assert len(server.commits) == 1


def test_only_what_changed_is_sent(folder, server):
    folder.write({f"{n:03}": random.Random(n).randbytes(1000) for n in range(200)})
    folder.sync()
    received = server.bytes_received
    folder.write({"007": b"edited", "new": b"added"}, mtime_ns=1_600_000_000_000_000_000)
    folder.remove("100")

    outcome = folder.sync()

    assert (outcome.bytes_uploaded, outcome.files_uploaded) == (11, 2)
    assert server.bytes_received - received < 20_000
    assert {key: server.commits[1][key] for key in ("added", "removed", "changed")} == {
        "added": 1,
        "removed": 1,
        "changed": 1,
    }


def test_a_renamed_file_is_not_sent_again(folder, server):
    folder.write({"old/name": b"content"})
    folder.sync()
    os.rename(folder.path("old"), folder.path("new"))

    outcome = folder.sync()

    assert outcome.bytes_uploaded == 0
    assert server.tree() == {b"new/name": b"content"}


def test_a_same_sized_edit_right_after_a_sync_is_noticed(folder, server):
    folder.write({"a": b"one"}, mtime_ns=time.time_ns())
    status = os.stat(folder.path("a"))
    folder.sync()
    with open(folder.path("a"), "r+b") as file:
        file.write(b"two")
    os.utime(folder.path("a"), ns=(status.st_atime_ns, status.st_mtime_ns))

    folder.sync()

    assert server.tree() == {b"a": b"two"}


def test_odd_names_are_carried_exactly(folder, make_folder):
    folder.write(ODD_NAMES)

    folder.sync()
    other = make_folder("other")
    other.sync()

    assert other.files() == ODD_NAMES


def test_modes_times_and_links_are_carried(folder, make_folder):
    folder.write({"run.sh": b"#!", "plain": b"x", "sub/file": b"y"}, mtime_ns=1_400_000_000_123_456_789)
    os.chmod(folder.path("run.sh"), 0o755)
    os.chmod(folder.path("plain"), 0o600)
    os.symlink("../plain", folder.path("sub/link"))
    os.symlink("sub", folder.path("folder-link"))

    folder.sync()
    other = make_folder("other")
    other.sync()

    assert os.stat(other.path("run.sh")).st_mode & 0o100
    assert not os.stat(other.path("plain")).st_mode & 0o100
    assert os.stat(other.path("plain")).st_mtime_ns == 1_400_000_000_123_456_789
    assert os.readlink(other.path("sub/link")) == b"../plain"
    assert os.readlink(other.path("folder-link")) == b"sub"
    assert other.sync().is_up_to_date


def test_links_that_lead_out_are_left_out_by_name(folder, server):
    folder.write({"a": b"1"})
    os.symlink("/etc/passwd", folder.path("absolute"))
    os.symlink("../outside", folder.path("up"))
    os.mkfifo(folder.path("pipe"))

    outcome = folder.sync()

    assert server.tree() == {b"a": b"1"}
    assert [path for path, _ in outcome.skipped] == ["absolute", "pipe", "up"]


def test_a_folder_that_is_linked_itself_is_left_out_and_stays_in_the_commit_as_it_was(folder, make_folder, server):
    folder.write({"a": b"1", "inner/b": b"2", "z": b"3"})
    folder.sync()
    Workspace.create(folder.root / "inner", LINK)
    folder.write({"a": b"4", "inner/b": b"mine", "inner/new": b"mine"})

    outcome = folder.sync()
    other = make_folder("other")
    other.sync()
    other.write({"inner/b": b"theirs"})
    other.sync()
    folder.sync()

    assert outcome.skipped == (("inner", "is linked to a dataset of its own"),)
    assert server.tree() == {b"a": b"4", b"inner/b": b"theirs", b"z": b"3"}
    assert Path(os.fsdecode(folder.path("inner/b"))).read_bytes() == b"mine"


def test_what_no_absolute_path_can_name_is_left_out_and_stays_in_the_commit(folder, server):
    folder.write({"a": b"1", "z": b"2"})
    deep = "/".join(["n" * 200] * 19)
    longest = os.pathconf(folder.root, "PC_PATH_MAX") - len(b"\0")
    long = f"{deep}/{'l' * (longest - len(f'{folder.root}/{deep}/'))}"
    folder.write({f"{deep}/f": b"3", long: b"4"})
    folder.sync()
    parent = folder.root.parent / "further"
    parent.mkdir()
    folder.root.rename(parent / "moved")
    folder = Folder(parent / "moved", server)
    folder.write({"a": b"5"})

    outcome = folder.sync()

    assert [path for path, _ in outcome.skipped] == [long]
    assert server.tree() == {b"a": b"5", f"{deep}/f".encode(): b"3", long.encode(): b"4", b"z": b"2"}


def test_a_path_that_is_too_long_for_a_folder_is_told_once_all_else_is_there(folder, make_folder):
    deep = "/".join(["n" * 200] * 19)
    longest = os.pathconf(folder.root, "PC_PATH_MAX") - len(b"\0")
    long = f"{deep}/{'l' * (longest - len(f'{folder.root}/{deep}/'))}"
    folder.write({"a": b"1", long: b"2", "z": b"3"}).sync()
    other = make_folder("other folder")

    with pytest.raises(Failed, match=r"^Cannot write 'nnn.*lll': File name too long\.$") as refused:
        other.sync()
    brought = other.files()
    other.root.rename(folder.root.with_name("other"))
    moved = make_folder("other")
    outcome = moved.sync()

    assert refused.value.hint == "Use a folder whose path is shorter."
    assert brought == {b"a": b"1", b"z": b"3"}
    assert moved.files() == folder.files()
    assert (outcome.files_downloaded, outcome.commit) == (1, None)


def test_a_large_file_is_chunked_and_an_insertion_moves_only_its_neighbourhood(folder, make_folder, server):
    content = random.Random(1).randbytes(40 << 20)
    folder.write({"big": content})
    folder.sync()

    folder.write({"big": content[: 20 << 20] + b"inserted" + content[20 << 20 :]}, mtime_ns=1_600_000_000_000_000_000)
    outcome = folder.sync()
    other = make_folder("other")
    other.sync()

    assert outcome.bytes_uploaded < 20 << 20
    assert other.files() == folder.files()


def test_a_file_that_cannot_be_read_stops_the_sync_by_name(folder, server, monkeypatch):
    folder.write({"a": b"1", "secret": b"2"})
    real_open = os.open

    def open_as_someone_else(path, *rest, **more):
        if path == folder.path("secret"):
            raise PermissionError(13, "Permission denied")
        return real_open(path, *rest, **more)

    monkeypatch.setattr(os, "open", open_as_someone_else)

    with pytest.raises(Failed, match="Cannot read 'secret': Permission denied"):
        folder.sync()

    assert server.commits == []


def test_ignored_files_stay_here_and_what_others_committed_of_them_stays_there(folder, make_folder, server):
    folder.write({"keep": b"1", "cache/x": b"2", "note.tmp": b"3"})
    folder.sync()
    other = make_folder("other")
    other.write({".nearlineignore": b"*.tmp\n", ".cnvrgignore": b"cache/\n", "mine.tmp": b"no", "cache/z": b"no"})

    other.sync()

    assert set(server.tree()) == {b".nearlineignore", b".cnvrgignore", b"keep", b"cache/x", b"note.tmp"}
    assert other.files()[b"mine.tmp"] == b"no"
    assert b"note.tmp" not in other.files()


@pytest.mark.parametrize("name", ["x.conflict", "x.deleted", "sub/x.deleted/y", ".tmp/x", "sub/.tmp/x"])
def test_names_that_syncing_itself_uses_are_never_sent_and_are_named(folder, server, name):
    folder.write({"a": b"1", "z": b"2", name: b"3"})

    outcomes = [folder.sync(), folder.sync(), folder.status()]

    own = name.removesuffix("/x").removesuffix("/y")
    assert set(server.tree()) == {b"a", b"z"}
    for outcome in outcomes:
        assert outcome.skipped == ((own, "has a name that synced folders keep to themselves"),)


@pytest.mark.parametrize("name", [".cnvrg/x", "sub/.nearline/x"])
def test_workspaces_are_never_sent(folder, server, name):
    folder.write({"a": b"1", name: b"2"})

    outcome = folder.sync()

    assert set(server.tree()) == {b"a"}
    assert outcome.skipped == ()


def test_own_names_that_the_ignore_file_lists_are_not_named(folder):
    folder.write({".nearlineignore": b"*.deleted\n.tmp/\n", "x.deleted": b"1", ".tmp/x": b"2"})

    assert folder.sync().skipped == ()


@pytest.mark.parametrize("name", ["x.deleted", "x.deleted/y", ".tmp/x", "sub/.tmp/x"])
def test_own_names_in_the_dataset_are_named_stay_there_and_are_not_brought(folder, make_folder, server, name):
    folder.write({"a": b"1", "y": b"2"})
    path = os.fsencode(name)
    put.put_files(server, "main", {b"a": folder.root / "a", path: folder.root / "y"}, options=OPTIONS)
    other = make_folder("other")

    outcome = other.sync()
    other.write({"b": b"3"}).sync()

    assert outcome.skipped == ((name, "has a name that synced folders keep to themselves"),)
    assert other.files() == {b"a": b"1", b"b": b"3"}
    assert server.tree() == {b"a": b"1", b"b": b"3", path: b"2"}
    assert other.sync().skipped == ()


# Two people


@pytest.fixture
def pair(folder, make_folder):
    """Two folders that hold the same first commit."""
    folder.write({"a": b"a", "b": b"b", "sub/c": b"c"})
    folder.sync()
    other = make_folder("other")
    other.sync()
    return folder, other


def test_others_work_arrives_and_removals_take_empty_folders_along(pair):
    ours, theirs = pair
    theirs.write({"a": b"new a", "d": b"d"}).remove("sub/c")
    theirs.sync()

    outcome = ours.sync()

    assert ours.files() == {b"a": b"new a", b"b": b"b", b"d": b"d"}
    assert not os.path.exists(ours.path("sub"))
    assert (outcome.files_downloaded, outcome.bytes_downloaded, outcome.commit) == (2, 6, None)


def test_work_on_other_files_is_merged_into_one_commit(pair, server):
    ours, theirs = pair
    theirs.write({"a": b"theirs"})
    theirs.sync()
    ours.write({"b": b"ours"})

    outcome = ours.sync()

    assert server.tree() == ours.files() == {b"a": b"theirs", b"b": b"ours", b"sub/c": b"c"}
    assert len(server.commits) == 3
    assert outcome.conflicts == ()


def test_a_file_changed_on_both_sides_keeps_ours_and_writes_theirs_beside_it(pair, server):
    ours, theirs = pair
    theirs.write({"a": b"theirs"})
    theirs.sync()
    ours.write({"a": b"ours"})

    outcome = ours.sync()

    assert ours.files() == {b"a": b"ours", b"a.conflict": b"theirs", b"b": b"b", b"sub/c": b"c"}
    assert server.tree() == {b"a": b"ours", b"b": b"b", b"sub/c": b"c"}
    assert outcome.conflicts == ("a",)


def test_what_a_sync_wrote_beside_a_file_is_not_named_again(pair):
    ours, theirs = pair
    theirs.write({"a": b"theirs", "new/x": b"theirs"})
    theirs.sync()
    ours.write({"a": b"ours", "new": b"ours"}).sync()

    assert {b"a.conflict", b"new.conflict/x"} < ours.files().keys()
    assert ours.status().skipped == ours.sync().skipped == ()
    ours.remove("a.conflict")
    ours.sync()
    assert [path for path, _ in ours.write({"a.conflict": b"mine"}).sync().skipped] == ["a.conflict"]


def test_the_same_change_on_both_sides_is_no_conflict_and_no_commit(pair, server):
    ours, theirs = pair
    for side in (theirs, ours):
        side.write({"a": b"same", "new": b"same"})
    theirs.sync()

    outcome = ours.sync()

    assert outcome.conflicts == ()
    assert len(server.commits) == 2
    assert ours.status().is_behind is False


def test_a_file_removed_here_and_changed_there_stays_removed_with_theirs_beside(pair, server):
    ours, theirs = pair
    theirs.write({"a": b"theirs"})
    theirs.sync()
    ours.remove("a")

    ours.sync()

    assert ours.files() == {b"a.conflict": b"theirs", b"b": b"b", b"sub/c": b"c"}
    assert set(server.tree()) == {b"b", b"sub/c"}


def test_our_file_against_their_folder_keeps_ours_and_writes_theirs_beside(pair, server):
    ours, theirs = pair
    theirs.write({"new/x": b"theirs", "new/y": b"theirs too"})
    theirs.sync()
    ours.write({"new": b"ours"})

    outcome = ours.sync()

    assert ours.files()[b"new"] == b"ours"
    assert ours.files()[b"new.conflict/x"] == b"theirs"
    assert set(server.tree()) == {b"a", b"b", b"sub/c", b"new"}
    assert outcome.conflicts == ("new/x", "new/y")


def test_our_folder_against_their_file_keeps_ours_and_writes_theirs_beside(pair, server):
    ours, theirs = pair
    theirs.write({"new": b"theirs"})
    theirs.sync()
    ours.write({"new/x": b"ours"})

    ours.sync()

    assert ours.files()[b"new/x"] == b"ours"
    assert ours.files()[b"new.conflict"] == b"theirs"
    assert set(server.tree()) == {b"a", b"b", b"sub/c", b"new/x"}


def test_a_file_becomes_a_folder_and_back(pair):
    ours, theirs = pair
    theirs.remove("a", "sub/c")
    os.rmdir(theirs.path("sub"))
    theirs.write({"a/x": b"1", "sub": b"2"})
    theirs.sync()

    ours.sync()

    assert ours.files() == theirs.files() == {b"a/x": b"1", b"sub": b"2", b"b": b"b"}


def test_a_lost_race_is_merged_and_ends_in_one_commit(pair, server):
    ours, theirs = pair
    ours.write({"a": b"ours"})
    theirs.write({"b": b"theirs"})
    server.fail("commit", lambda: theirs.sync() and None)

    outcome = ours.sync()

    assert server.tree() == {b"a": b"ours", b"b": b"theirs", b"sub/c": b"c"}
    assert ours.files() == server.tree()
    assert [c["parent"] for c in server.commits][1:] == [c["id"] for c in server.commits][:-1]
    assert outcome.commit.parent == server.commits[1]["id"]


def test_a_race_for_the_same_file_is_a_conflict_as_if_it_was_seen_before(pair, server):
    ours, theirs = pair
    ours.write({"a": b"ours"})
    theirs.write({"a": b"theirs"})
    server.fail("commit", lambda: theirs.sync() and None)

    outcome = ours.sync()

    assert ours.files()[b"a.conflict"] == b"theirs"
    assert server.tree()[b"a"] == b"ours"
    assert outcome.conflicts == ("a",)


def test_upload_merges_work_on_other_files_without_touching_the_folder(pair, server):
    ours, theirs = pair
    theirs.write({"b": b"theirs"})
    theirs.sync()
    ours.write({"a": b"ours"})

    ours.upload()

    assert server.tree() == {b"a": b"ours", b"b": b"theirs", b"sub/c": b"c"}
    assert ours.files()[b"b"] == b"b"
    assert ours.sync().commit is None
    assert ours.files() == server.tree()


def test_upload_refuses_when_others_changed_the_same_file(pair, server):
    ours, theirs = pair
    theirs.write({"a": b"theirs"})
    theirs.sync()
    ours.write({"a": b"ours"})
    before = ours.files()

    with pytest.raises(Conflict) as refusal:
        ours.upload()

    assert refusal.value.code == "datasets.stale_parent"
    assert len(server.commits) == 2
    assert ours.files() == before


def test_force_makes_the_dataset_what_the_folder_is(pair, server):
    ours, theirs = pair
    theirs.write({"a": b"theirs", "d": b"d"})
    theirs.sync()
    ours.write({"b": b"ours"})

    ours.sync(force=True)

    assert server.tree() == ours.files() == {b"a": b"a", b"b": b"ours", b"sub/c": b"c"}
    assert len(server.commits) == 3


def test_a_forced_sync_that_is_overtaken_starts_again(pair, server):
    ours, theirs = pair
    ours.write({"a": b"ours"})
    theirs.write({"a": b"theirs"})
    server.fail("commit", lambda: theirs.sync() and None)

    ours.sync(force=True)

    assert server.tree() == ours.files()
    assert server.tree()[b"a"] == b"ours"
    assert len(server.commits) == 3


def test_names_that_differ_only_in_case_are_refused_before_anything_is_sent(pair, server):
    ours, theirs = pair
    theirs.write({"README": b"1"})
    theirs.sync()
    ours.write({"Readme": b"2"})
    received = server.bytes_received

    with pytest.raises(Conflict, match="'README' and 'Readme' differ only in case"):
        ours.sync()

    assert len(server.commits) == 2
    assert server.bytes_received == received
    assert ours.files()[b"Readme"] == b"2"


def test_all_names_that_collide_are_told_at_once_before_anything_is_sent(folder, server):
    folder.write(dict.fromkeys(["A/x", "a/x", "README", "Readme", "\u00e9", "e\u0301"], b"1"))

    with pytest.raises(Conflict) as caught:
        folder.sync()

    assert caught.value.code == "client.name_collision"
    assert caught.value.details["groups"] == [["A", "a"], ["README", "Readme"], [r"e\u0301", r"\u00e9"]]
    assert caught.value.message.startswith("3 groups of names differ only in case or Unicode form: ")
    assert "--allow-collisions" in caught.value.hint
    assert (server.commits, server.bytes_received) == ([], 0)


def test_names_among_very_many_others_are_compared_with_each_other_before_anything_is_sent(folder, server):
    tree = build_tree([Entry(b"%06d" % number, 0o644, 0, 0, EMPTY_ID) for number in range(60_000)])
    for name, data in tree.objects.items():
        server.object_path(ObjectKind.RANGE, name).write_bytes(data)
    server.object_path(ObjectKind.ROOT, tree.root_id).write_bytes(tree.root)
    upload = server.start_upload("main", "test").id
    server.commit(upload, root=tree.root_id, expected_head=None, message="", source="cli", idempotency_key="k")
    folder.write({"new": b"1", "New": b"2"})

    with pytest.raises(Conflict, match="'New' and 'new' differ only in case"):
        folder.upload()

    assert (len(server.commits), server.bytes_received) == (1, 0)


@pytest.mark.parametrize("way", ["sync", "upload"])
def test_names_that_collide_are_carried_when_allowed_and_need_no_leave_again(folder, make_folder, server, way):
    folder.write(dict.fromkeys(["A/x", "a/x", "\u00e9", "e\u0301"], b"1"))

    getattr(folder, way)(allow_collisions=True)
    other = make_folder("other")
    other.sync()
    other.write({"A/x": b"2", "a/y": b"3"})
    getattr(other, way)()

    assert server.tree() == other.files()
    assert (server.tree()[b"A/x"], server.tree()[b"a/x"], server.tree()[b"a/y"]) == (b"2", b"1", b"3")


def test_a_new_collision_beside_old_ones_needs_leave(folder, server):
    folder.write({"A": b"1", "a": b"2"}).sync(allow_collisions=True)
    folder.write({"b": b"1", "B": b"2"})

    with pytest.raises(Conflict) as caught:
        folder.sync()

    assert caught.value.details["groups"] == [["B", "b"]]
    assert len(server.commits) == 1


def test_a_name_that_lost_a_race_against_one_that_differs_only_in_case_is_refused(pair, server):
    ours, theirs = pair
    ours.write({"Readme": b"2"})
    theirs.write({"README": b"1"})
    server.fail("commit", lambda: theirs.sync() and None)

    with pytest.raises(Conflict, match="'README' and 'Readme' differ only in case"):
        ours.sync()

    assert set(server.tree()) == {b"a", b"b", b"sub/c", b"README"}


def test_a_file_can_change_the_case_of_its_name(pair, server):
    ours, _ = pair
    os.rename(ours.path("a"), ours.path("A"))

    ours.sync()

    assert set(server.tree()) == {b"A", b"b", b"sub/c"}


def test_two_syncs_of_one_folder_do_not_mix(folder, server):
    folder.write({"a": b"1"})
    with folder.workspace.lock(), pytest.raises(Conflict, match="Another sync is running"):
        folder.sync()

    assert server.commits == []


# Download, status, verify


def test_download_of_a_commit_brings_back_what_is_missing_and_keeps_what_was_changed(pair, server):
    ours, _ = pair
    ours.remove("a")
    ours.write({"b": b"mine"})

    outcome = ours.download(server.commits[0]["id"])

    assert ours.files() == {b"a": b"a", b"b": b"mine", b"sub/c": b"c"}
    assert outcome.files_downloaded == 1


def test_download_of_an_older_commit_and_sync_forth_again(pair, server):
    ours, _ = pair
    ours.write({"a": b"second"})
    ours.sync()

    ours.download(server.commits[0]["id"])
    back = ours.files()
    ours.sync()

    assert back[b"a"] == b"a"
    assert ours.files()[b"a"] == b"second"
    assert len(server.commits) == 2


def test_status_says_what_changed_here_and_whether_others_committed(pair):
    ours, theirs = pair
    theirs.write({"a": b"theirs"})
    theirs.sync()
    ours.write({"b": b"ours", "new": b"1"}).remove("sub/c")

    found = ours.status()

    assert (found.added, found.changed, found.removed, found.is_behind) == (("new",), ("b",), ("sub/c",), True)


def test_verify_reads_what_the_stat_cache_would_believe(pair):
    ours, _ = pair
    status = os.stat(ours.path("a"))
    with open(ours.path("a"), "r+b") as file:
        file.write(b"X")
    os.utime(ours.path("a"), ns=(status.st_atime_ns, status.st_mtime_ns))

    assert ours.verify().changed == ("a",)
