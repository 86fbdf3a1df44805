"""A walk yields the files of a folder in the order of their paths, without what is ignored."""

import errno
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.tests.deep_folders import deep_folder
from nearline.errors import Failed
from nearline.transfer.local.walk import IgnoreRules, read_rules, walk


def make(root, names):
    for name in names:
        path = os.path.join(os.fsencode(root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb"):
            pass


def paths(root, lines=()):
    return [found.path for found in walk(os.fsencode(root), IgnoreRules(lines), [])]


def test_paths_come_in_the_order_of_their_bytes_across_folders(tmp_path):
    names = ["a/b", "a-b", "a.txt", "a0", "ab/c/d", "z"]
    make(tmp_path, names)

    assert paths(tmp_path) == sorted(map(os.fsencode, names)) == [b"a-b", b"a.txt", b"a/b", b"a0", b"ab/c/d", b"z"]


@settings(max_examples=30, deadline=None)
@given(
    st.sets(
        st.lists(st.sampled_from(["a", "a-", "a.", "b", "\udcff"]), min_size=1, max_size=3).map("/".join), max_size=8
    )
)
def test_any_folder_is_walked_in_order_and_completely(tmp_path_factory, names):
    names = {name for name in names if not any(other.startswith(name + "/") for other in names)}
    root = tmp_path_factory.mktemp("walk")
    make(root, names)

    assert paths(root) == sorted(map(os.fsencode, names))


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ([], ["a.log", "b.txt", "build/c.txt", "deep/build/d.txt", "keep.log"]),
        (["*.log"], ["b.txt", "build/c.txt", "deep/build/d.txt"]),
        (["*.log", "!keep.log"], ["b.txt", "build/c.txt", "deep/build/d.txt", "keep.log"]),
        (["/build/"], ["a.log", "b.txt", "deep/build/d.txt", "keep.log"]),
        (["build"], ["a.log", "b.txt", "keep.log"]),
        (["# a comment", "", "deep/**"], ["a.log", "b.txt", "build/c.txt", "keep.log"]),
        (["!x.conflict"], ["a.log", "b.txt", "build/c.txt", "deep/build/d.txt", "keep.log"]),
    ],
)
def test_ignore_files_have_the_syntax_of_gitignore(tmp_path, lines, kept):
    make(tmp_path, ["a.log", "keep.log", "b.txt", "build/c.txt", "deep/build/d.txt", "x.conflict"])

    assert paths(tmp_path, lines) == list(map(os.fsencode, kept))
    rules = IgnoreRules(lines)
    for name in ["a.log", "keep.log", "b.txt", "build/c.txt", "deep/build/d.txt"]:
        assert rules.covers(name.encode()) == (name not in kept)


def test_both_ignore_files_are_read(tmp_path):
    (tmp_path / ".nearlineignore").write_bytes(b"*.a\n")
    (tmp_path / ".cnvrgignore").write_bytes(b"\xff.b\r\n")
    rules = read_rules(os.fsencode(tmp_path))

    assert [rules.covers(name) for name in (b"x.a", b"\xff.b", b"x.c")] == [True, True, False]


def test_a_folder_that_cannot_be_read_is_told_by_name(tmp_path, monkeypatch):
    make(tmp_path, ["open/a", "shut/b"])
    real = os.scandir

    def scandir(path):
        if path.endswith(b"shut/"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)

    with pytest.raises(Failed, match="Cannot read the folder 'shut/': Permission denied"):
        paths(tmp_path)


@pytest.mark.parametrize(
    ("levels", "name", "why"),
    [(1100, "d", "has more than 256 components"), (30, "n" * 200, "is longer than 4096 bytes")],
)
def test_of_folders_that_no_path_can_name_the_rest_is_walked(tmp_path, monkeypatch, levels, name, why):
    skipped = []
    with deep_folder(tmp_path / "top", levels, name) as top:
        monkeypatch.chdir(top)
        walked = [file.path for file in walk(b".", IgnoreRules(), skipped)]
        monkeypatch.chdir(tmp_path)

    refused = {path for path, reason in skipped if reason == why}
    assert len(skipped) == len(refused) <= 2
    assert b"f" in walked
    assert not refused & set(walked)


def test_a_pipe_in_place_of_an_ignore_file_holds_nothing_up(tmp_path):
    os.mkfifo(tmp_path / ".nearlineignore")

    assert not read_rules(os.fsencode(tmp_path)).has_rules


def test_a_link_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    os.symlink("target", tmp_path / "link")

    def refuse(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "readlink", refuse)

    with pytest.raises(Failed, match=r"^Cannot read 'link': Permission denied\.$"):
        paths(tmp_path)
