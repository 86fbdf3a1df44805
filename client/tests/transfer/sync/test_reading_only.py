"""Status and verification write nothing into the folder: it may be of another person, or a snapshot."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from client.tests.fake_server import FakeServer
from client.tests.transfer.folders import Folder
from nearline.errors import Failed

_NOBODY = 65534


@pytest.fixture
def foreign():
    """A synced folder of which only its owner may write anything."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = Folder(Path(place) / "folder", FakeServer(Path(place) / "server"))
        folder.write({"a.txt": b"one", "b/c.txt": b"two"}).sync()
        yield folder


@contextmanager
def not_writable(folder):
    """Take the right to write from the folder, and from root as well."""
    paths = [folder.root, *folder.root.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    for path in [folder.server.folder, *folder.server.folder.rglob("*")]:
        path.chmod(0o777)
    folder.workspace.cache_path.chmod(0o600)
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        if was_root:
            os.seteuid(0)
        for path in paths:
            path.chmod(0o755 if path.is_dir() else 0o644)


def contents_of(folder):
    return {path: path.stat().st_mtime_ns for path in folder.root.rglob("*")}


def test_what_changed_in_a_folder_of_another_person_is_told(foreign):
    foreign.write({"new.txt": b"three"})
    before = contents_of(foreign)

    with not_writable(foreign):
        changes = foreign.status()
        findings = foreign.verify()

    assert (changes.added, changes.changed, changes.removed, changes.is_behind) == (("new.txt",), (), (), False)
    assert (findings.files, findings.added, findings.changed) == (3, ("new.txt",), ())
    assert contents_of(foreign) == before


def test_a_sync_says_that_nothing_can_be_written(foreign):
    with not_writable(foreign), pytest.raises(Failed, match=r"Cannot write .*lock': Permission denied\.$") as refused:
        foreign.sync()

    assert refused.value.hint.endswith("make the folder writable.")
