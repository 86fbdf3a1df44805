"""A clone takes files from a copy on this machine: only right ones, and never so that an edit reaches the copy."""

import os
import stat
from dataclasses import replace

import pytest

from client.tests.transfer.folders import OPTIONS, Folder
from nearline.transfer.local.sharing import Donor
from nearline.transfer.sync import sync

FILES = {"a.txt": b"alpha", "deep/b.bin": b"beta", "bad.txt": b"right", "away.txt": b"away", "empty": b""}


@pytest.fixture
def copy(folder, server, tmp_path):
    """A sealed copy of a commit: one file is damaged, one gone, and one leads out by a link."""
    folder.write(FILES | {"link.txt": b"outside"}).sync()
    copy = Folder(tmp_path / "copy", server)
    copy.write({"a.txt": b"alpha", "deep/b.bin": b"beta", "bad.txt": b"wrong", "extra.txt": b"extra"})
    (tmp_path / "outside").write_bytes(b"outside")
    os.symlink(tmp_path / "outside", copy.path("link.txt"))
    for name in ("a.txt", "deep/b.bin"):
        os.chmod(copy.path(name), 0o444)
    return copy


@pytest.mark.parametrize(("may_link", "how"), [(True, "hard link"), (False, "copy")])
def test_right_files_are_shared_and_the_rest_is_fetched(server, copy, tmp_path, may_link, how):
    donor = Donor(os.fsencode(copy.root), may_link=may_link)
    clone = Folder(tmp_path / "clone", server)

    outcome = sync.download_folder(clone.workspace, server, options=replace(OPTIONS, donor=donor))

    assert clone.files() == {os.fsencode(name): data for name, data in (FILES | {"link.txt": b"outside"}).items()}
    assert sum(donor.shared.values()) == 2
    assert set(donor.shared) <= {how, "reflink"}
    assert outcome.files_downloaded == 6
    assert clone.status().changed == clone.status().added == ()
    shared = os.stat(clone.path("a.txt"))
    is_own = shared.st_ino != os.stat(copy.path("a.txt")).st_ino
    assert is_own or not stat.S_IMODE(shared.st_mode) & 0o222
    assert is_own is (how not in donor.shared or how == "copy")


def test_a_file_that_somebody_may_write_to_is_not_linked(server, copy, tmp_path):
    os.chmod(copy.path("a.txt"), 0o644)
    donor = Donor(os.fsencode(copy.root), may_link=True)
    clone = Folder(tmp_path / "clone", server)

    sync.download_folder(clone.workspace, server, options=replace(OPTIONS, donor=donor))

    assert os.stat(clone.path("a.txt")).st_ino != os.stat(copy.path("a.txt")).st_ino
