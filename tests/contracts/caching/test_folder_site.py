"""The folder volume, in each way of sharing; and that it needs no root."""

import os

import pytest

from datasets.adapters.sites.folder import sealed_files
from datasets.adapters.sites.folder.copy_folder import PosixFolder
from datasets.engine.cache_ports import Sharing
from datasets.errors import CacheSiteFull, CacheSiteUnavailable
from tests.contracts import copy_folder
from tests.contracts.copy_folder import OTHER, PATH, CopyFolderContract, look, make, make_shared
from tests.folders import open_folder


class TestWithHardLinks(CopyFolderContract):
    @pytest.fixture
    def volume(self, tmp_path):
        return PosixFolder(tmp_path / "site", sharing=Sharing.HARD_LINK)


class TestWithCopies(CopyFolderContract):
    @pytest.fixture
    def volume(self, tmp_path):
        return PosixFolder(tmp_path / "site", sharing=Sharing.NONE)


class TestWithReflinks(CopyFolderContract):
    @pytest.fixture
    def volume(self, tmp_path):
        if sealed_files.probe_sharing(tmp_path) is not Sharing.REFLINK:
            pytest.skip("this file system has no reflinks")
        return PosixFolder(tmp_path / "site", sharing=Sharing.REFLINK)


def test_sharing_is_found_out_by_trying(tmp_path):
    assert PosixFolder(tmp_path / "site").sharing in {Sharing.REFLINK, Sharing.HARD_LINK}
    assert list((tmp_path / "site" / ".staging").iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_clear_sentence(tmp_path):
    (tmp_path / "file").write_text("x")

    with pytest.raises(CacheSiteUnavailable, match="Not a directory"):
        PosixFolder(tmp_path / "file" / "site")


def test_a_full_disk_is_said_to_be_full():
    if not os.path.exists("/dev/full"):  # noqa: PTH110 (a device, no file)
        pytest.skip("this system has no /dev/full")
    with pytest.raises(CacheSiteFull), sealed_files.disk_errors(), open("/dev/full", "wb", buffering=0) as file:  # noqa: PTH123
        file.write(b"x")


def test_all_of_it_works_without_root():
    with open_folder() as folder:
        folder.chmod(0o777)

        child = os.fork()
        if child == 0:
            status = 1
            try:
                if os.geteuid() == 0:
                    os.setgid(65534)
                    os.setuid(65534)
                _live_a_whole_life(PosixFolder(folder / "site", sharing=Sharing.HARD_LINK), folder / "site")
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _live_a_whole_life(volume, folder):
    make(volume)
    assert any(make_shared(volume))
    (folder / PATH / "a").chmod(0o755)
    (folder / PATH / "a" / "one").unlink()
    good = volume.stage("healing-1", "t1")
    copy_folder.fill(good, [copy_folder.ENTRIES[0]])
    volume.replace([(PATH, b"a/one"), (OTHER, b"a/one")], copy_folder.ENTRIES[0], good=good.folder / "a" / "one")
    assert look(volume, PATH, read=True) == look(volume, OTHER, read=True) == {}
    volume.hide(PATH, "cc_1")
    assert volume.weigh("cc_1") == len(b"run")
    assert volume.remove("cc_1", keep_going=lambda: True)
    assert volume.remove("healing-1", keep_going=lambda: True)
    assert volume.list_leftovers() == set()
    assert look(volume, OTHER, read=True) == {}
