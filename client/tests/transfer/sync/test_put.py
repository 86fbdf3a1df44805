"""Files are put into and removed from a dataset without a linked folder."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from client.tests.deep_folders import deep_folder
from client.tests.transfer.folders import LINK, OPTIONS
from nearline.errors import Conflict
from nearline.transfer.local.workspace import Workspace
from nearline.transfer.sync import put


@pytest.fixture
def filled(folder, server):
    folder.write({"a": b"a", "sub/b": b"b"}).sync()
    return folder


@pytest.fixture
def source(tmp_path):
    """Files outside of any linked folder."""
    place = tmp_path / "source"
    (place / "inner").mkdir(parents=True)
    (place / "one.txt").write_bytes(b"one")
    (place / "inner" / "two.txt").write_bytes(b"two")
    return place


def test_files_and_folders_are_added_below_a_folder_as_one_commit(filled, server, source):
    files = put.list_files([source / "one.txt", source / "inner"], b"new/", [])

    outcome = put.put_files(server, "main", files, message="more", options=OPTIONS)

    assert server.tree() == {
        b"a": b"a",
        b"sub/b": b"b",
        b"new/one.txt": b"one",
        b"new/inner/two.txt": b"two",
    }
    assert (outcome.files_uploaded, outcome.bytes_uploaded, server.commits[-1]["message"]) == (2, 6, "more")


def test_a_folder_is_taken_whole_with_one_that_is_linked_itself_and_what_no_synced_folder_brings_is_named(
    filled, server, source
):
    Workspace.create(source / "inner", LINK)
    (source / "inner" / ".tmp").mkdir()
    for name in ("inner/.nearlineignore", "inner/.tmp/x", "inner/ignored", "two.deleted", "one.conflict"):
        (source / name).write_bytes(b"ignored")
    skipped = []
    files = put.list_files([source], b"", skipped)

    outcome = put.put_files(server, "main", files, only=True, skipped=skipped, options=OPTIONS)

    names = ("inner/.nearlineignore", "inner/ignored", "inner/two.txt", "one.txt")
    assert sorted(server.tree()) == [os.fsencode(f"source/{name}") for name in names]
    assert [path for path, why in outcome.skipped] == ["source/inner/.tmp", "source/one.conflict", "source/two.deleted"]
    assert {why for _, why in outcome.skipped} == {"has a name that synced folders keep to themselves"}


def test_putting_what_is_there_already_makes_no_commit(filled, server, source):
    files = put.list_files([source / "one.txt"], b"", [])
    put.put_files(server, "main", files, options=OPTIONS)

    outcome = put.put_files(server, "main", files, options=OPTIONS)

    assert outcome.is_up_to_date
    assert len(server.commits) == 2


def test_a_commit_can_hold_only_what_is_put(filled, server, source):
    put.put_files(server, "main", put.list_files([source / "one.txt"], b"", []), only=True, options=OPTIONS)

    assert server.tree() == {b"one.txt": b"one"}


def test_what_cannot_be_carried_is_left_out_by_name(filled, server, source):
    os.symlink("/etc/passwd", source / "inner" / "link")

    outcome = put.put_files(server, "main", put.list_files([source / "inner"], b"", []), options=OPTIONS)

    assert [path for path, _ in outcome.skipped] == ["inner/link"]
    assert b"inner/two.txt" in server.tree()


def test_what_no_absolute_path_can_name_is_left_out(server, source):
    # Steps so short that no path is longer than a dataset takes.
    with deep_folder(source / "deep", 250, "d" * 16) as deep:
        outcome = put.put_files(server, "main", put.list_files([deep], b"", []), options=OPTIONS)

    longest = os.pathconf(deep, "PC_PATH_MAX") - len(b"\0")
    why = "has a longer name, from the root of the machine, than the system takes"
    assert {reason for _, reason in outcome.skipped} == {why}
    assert len(server.tree()) == 1 + (longest - len(f"{deep}/f")) // len("/" + "d" * 16)


def test_one_file_can_be_put_under_two_names(server, source):
    files = {b"x": source / "one.txt", b"y": source / "one.txt"}

    outcome = put.put_files(server, "main", files, options=OPTIONS)

    assert server.tree() == {b"x": b"one", b"y": b"one"}
    assert outcome.bytes_uploaded == 3


def test_a_put_that_is_overtaken_lands_on_the_newer_commit(filled, server, source):
    server.fail("commit", lambda: filled.write({"a": b"newer"}).sync() and None)

    put.put_files(server, "main", put.list_files([source / "one.txt"], b"", []), options=OPTIONS)

    assert server.tree() == {b"a": b"newer", b"sub/b": b"b", b"one.txt": b"one"}
    assert len(server.commits) == 3


def test_a_file_cannot_be_put_where_a_folder_is(filled, server, source):
    with pytest.raises(Conflict, match="'sub' and 'sub/b' need one name as a file and a folder"):
        put.put_files(server, "main", {b"sub": source / "one.txt"}, options=OPTIONS)

    assert len(server.commits) == 1


def test_names_that_collide_are_put_nowhere_and_nothing_is_sent(filled, server, source):
    received = server.bytes_received
    files = {b"A": source / "one.txt", b"X": source / "one.txt", b"x": source / "inner" / "two.txt"}

    with pytest.raises(Conflict) as caught:
        put.put_files(server, "main", files, options=OPTIONS)

    assert caught.value.details["groups"] == [["A", "a"], ["X", "x"]]
    assert (len(server.commits), server.bytes_received) == (1, received)


def test_names_that_collide_are_put_when_allowed_and_once_more_without_leave(filled, server, source):
    files = {b"A": source / "one.txt", b"sub/B": source / "one.txt"}

    put.put_files(server, "main", files, options=replace(OPTIONS, allow_collisions=True))
    put.put_files(server, "main", {**files, b"A": source / "inner" / "two.txt"}, only=True, options=OPTIONS)

    assert set(server.tree()) == {b"A", b"sub/B"}


def test_a_file_cannot_be_put_where_a_folder_is_even_when_collisions_are_allowed(filled, server, source):
    with pytest.raises(Conflict, match="'sub' and 'sub/b' need one name as a file and a folder"):
        put.put_files(server, "main", {b"sub": source / "one.txt"}, options=replace(OPTIONS, allow_collisions=True))

    assert len(server.commits) == 1


def test_removing_keeps_older_commits_as_they_were(filled, server):
    put.remove_files(server, "main", [b"a", b"never there"], message="less", options=OPTIONS)

    assert server.tree() == {b"sub/b": b"b"}
    assert server.tree(server.commits[0]["root"]) == {b"a": b"a", b"sub/b": b"b"}


def test_removing_nothing_makes_no_commit(filled, server):
    assert put.remove_files(server, "main", [b"never there"], options=OPTIONS).is_up_to_date
    assert len(server.commits) == 1


def test_a_relative_source_is_found_from_the_current_folder(server, source, monkeypatch):
    monkeypatch.chdir(source)

    put.put_files(server, "main", put.list_files([Path("one.txt"), Path("inner")], b"", []), options=OPTIONS)

    assert server.tree() == {b"one.txt": b"one", b"inner/two.txt": b"two"}
