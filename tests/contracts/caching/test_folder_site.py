"""The folder volume, in each way of sharing; and that it needs no root."""

import os
from pathlib import Path

import pytest

from datasets.adapters.sites.folder import sealed_files
from datasets.adapters.sites.folder.copy_folder import PosixFolder, make_folder
from datasets.engine.cache_ports import Sharing
from datasets.errors import CacheSiteAway, CacheSiteFull, CacheSiteUnavailable, StagingLost
from tests.contracts import copy_folder
from tests.contracts.copy_folder import OTHER, PATH, CopyFolderContract, look, make, make_shared
from tests.folders import open_folder


def open_site(root: Path, sharing: Sharing | None = None) -> PosixFolder:
    """Make the folder of a site and open it."""
    return PosixFolder(root, site="lab", mark=make_folder(root), sharing=sharing)


class TestWithHardLinks(CopyFolderContract):
    @pytest.fixture
    def volume(self, tmp_path):
        return open_site(tmp_path / "site", Sharing.HARD_LINK)


class TestWithCopies(CopyFolderContract):
    @pytest.fixture
    def volume(self, tmp_path):
        return open_site(tmp_path / "site", Sharing.NONE)


class TestWithReflinks(CopyFolderContract):
    @pytest.fixture
    def volume(self, tmp_path):
        if sealed_files.probe_sharing(tmp_path) is not Sharing.REFLINK:
            pytest.skip("this file system has no reflinks")
        return open_site(tmp_path / "site", Sharing.REFLINK)


def test_sharing_is_found_out_by_trying(tmp_path):
    assert open_site(tmp_path / "site").sharing in {Sharing.REFLINK, Sharing.HARD_LINK}
    assert list((tmp_path / "site" / ".staging").iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_clear_sentence(tmp_path):
    (tmp_path / "file").write_text("x")

    with pytest.raises(CacheSiteUnavailable, match="Not a directory"):
        make_folder(tmp_path / "file" / "site")


class TestAway:
    """The folder went away, as a disk that was unmounted: an empty mount point is left, and the copy was not lost."""

    @pytest.fixture
    def site(self, tmp_path):
        site = open_site(tmp_path / "site", Sharing.HARD_LINK)
        make(site)
        return site

    @pytest.fixture
    def take_away(self, tmp_path):
        def take_away():
            (tmp_path / "site").rename(tmp_path / "disk")
            (tmp_path / "site").mkdir()

        return take_away

    @pytest.mark.parametrize("place", ["nothing", "empty", "another site"])
    def test_it_is_not_opened_and_nothing_is_made_in_its_place(self, tmp_path, place):
        mark = make_folder(tmp_path / "disk")
        if place != "nothing":
            (tmp_path / "site").mkdir()
        if place == "another site":
            make_folder(tmp_path / "site")
        names = sorted(path.name for path in tmp_path.rglob("*"))

        with pytest.raises(CacheSiteAway, match="folder of the cache site lab is not there") as refusal:
            PosixFolder(tmp_path / "site", site="lab", mark=mark)

        assert refusal.value.for_admins.startswith(f"The folder {tmp_path / 'site'} is not there")
        assert refusal.value.for_admins.endswith(f" Is its disk mounted? Its mark is {mark}.")
        assert sorted(path.name for path in tmp_path.rglob("*")) == names

    @pytest.mark.parametrize(
        "work",
        [
            lambda site: site.stage("cc_2", "t"),
            lambda site: site.now_ns(),
            lambda site: look(site, PATH, read=True),
            lambda site: site.weigh("cc_1"),
            lambda site: site.remove("cc_1", keep_going=lambda: True),
        ],
        ids=["stage", "now", "inspect", "weigh", "remove"],
    )
    def test_nothing_is_told_as_done_or_as_missing(self, site, tmp_path, take_away, work):
        take_away()

        with pytest.raises(CacheSiteUnavailable):
            work(site)

        assert list((tmp_path / "site").iterdir()) == []

    def test_a_copy_in_the_making_is_not_made_in_its_place(self, site, tmp_path, take_away):
        staging = site.stage("cc_2", "t")
        copy_folder.fill(staging, copy_folder.ENTRIES)
        take_away()

        with pytest.raises(StagingLost):
            staging.publish(OTHER, files=len(copy_folder.ENTRIES))

        assert list((tmp_path / "site").iterdir()) == []

    def test_once_it_is_back_all_is_there(self, site, tmp_path, take_away):
        mark = make_folder(tmp_path / "site")
        take_away()
        (tmp_path / "site").rmdir()
        (tmp_path / "disk").rename(tmp_path / "site")

        assert look(PosixFolder(tmp_path / "site", site="lab", mark=mark), PATH, read=True) == {}


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
                _live_a_whole_life(open_site(folder / "site", Sharing.HARD_LINK), folder / "site")
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
