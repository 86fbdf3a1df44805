"""A site's folder is its own: what is swept and evicted there is nothing else's."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from accounts.permissions import Actor
from datasets.adapters.sites.folder import kind
from datasets.adapters.sites.folder.copy_folder import PosixFolder, make_folder
from datasets.adapters.sites.folder.sealed_files import write_marker
from datasets.errors import InvalidCacheSite
from datasets.models import CacheSite
from datasets.services import cache_sites
from tests.factories.datasets import make_store

ROOT = Path(__file__).resolve().parents[3]
SYSTEM = Actor.system("test")


@pytest.fixture
def home(db, settings, tmp_path) -> Path:
    settings.NEARLINE = replace(settings.NEARLINE, home=tmp_path / "home")
    for name in kind._PLATFORM_FOLDERS:
        (tmp_path / "home" / name).mkdir(parents=True)
    return tmp_path / "home"


def create(root: Path | str) -> CacheSite:
    return cache_sites.create_site(actor=SYSTEM, name="new", root=root, capacity_bytes=1)


@pytest.mark.parametrize("name", sorted(kind._PLATFORM_FOLDERS))
@pytest.mark.parametrize("inner", ["", "inner"])
def test_a_site_in_a_folder_of_the_platform_is_refused(home, name, inner):
    with pytest.raises(InvalidCacheSite, match="of the platform lie in each other"):
        create(home / name / inner)

    assert not CacheSite.objects.exists()
    assert list((home / name).iterdir()) == []


@pytest.mark.parametrize("root", ["", "..", "../..", "cache/../jobs"])
def test_a_site_that_holds_the_platforms_folders_is_refused(home, root):
    with pytest.raises(InvalidCacheSite, match="lie in each other"):
        create(f"{home}/{root}")

    assert not CacheSite.objects.exists()


def test_a_capacity_above_the_size_of_the_disk_is_refused(home, tmp_path):
    size_bytes = PosixFolder(tmp_path / "new", site="lab", mark=make_folder(tmp_path / "new")).usage().total_bytes
    with pytest.raises(InvalidCacheSite, match=r"new cannot hold .* in all, whoever uses them"):
        cache_sites.create_site(actor=SYSTEM, name="new", root=tmp_path / "new", capacity_bytes=size_bytes + 1)
    site = cache_sites.create_site(actor=SYSTEM, name="new", root=tmp_path / "new", capacity_bytes=size_bytes)

    with pytest.raises(InvalidCacheSite, match="new cannot hold"):
        cache_sites.update_site(actor=SYSTEM, site=site, capacity_bytes=size_bytes + 1)

    assert cache_sites.update_site(actor=SYSTEM, site=site, idle_days=2).capacity_bytes == size_bytes


def test_a_link_hides_nothing(home, tmp_path):
    (tmp_path / "link").symlink_to(home / "jobs")
    (tmp_path / "up").symlink_to(tmp_path)
    cache_sites.create_site(actor=SYSTEM, name="first", root=tmp_path / "first", capacity_bytes=1)

    for root in (tmp_path / "link" / "inner", tmp_path / "up" / "first" / "inner", tmp_path / "up"):
        with pytest.raises(InvalidCacheSite, match="lie in each other"):
            create(root)

    assert CacheSite.objects.count() == 1


def test_a_folder_with_other_files_is_refused_and_left_as_it_is(home, tmp_path):
    (tmp_path / "etc" / ".ready").mkdir(parents=True)
    (tmp_path / "etc" / "passwd").write_text("root")

    with pytest.raises(InvalidCacheSite, match=r"etc holds other files, such as passwd\. Choose an empty folder\."):
        create(tmp_path / "etc")

    assert not CacheSite.objects.exists()
    assert sorted(path.name for path in (tmp_path / "etc").rglob("*")) == [".ready", "passwd"]


def test_a_file_is_no_folder(home, tmp_path):
    (tmp_path / "file").write_text("text")

    with pytest.raises(InvalidCacheSite, match=r"file cannot be read: Not a directory\."):
        create(tmp_path / "file")


def test_the_folder_of_an_earlier_site_is_taken_with_its_copies(home, tmp_path):
    root = tmp_path / "cache"
    mark = make_folder(root)
    (root / "lost+found").mkdir()
    (root / "team-a" / "scans").mkdir(parents=True)
    write_marker(root, "team-a/scans/c1", "copy_1")

    assert create(root).mark == mark

    assert PosixFolder(root, site="lab", mark=mark).list_published() == {"copy_1": "team-a/scans/c1"}


def test_a_site_in_a_store_is_refused(home, tmp_path):
    make_store(tmp_path / "objects")

    with pytest.raises(InvalidCacheSite, match="of the store"):
        create(tmp_path / "objects" / "datasets")

    assert not CacheSite.objects.exists()


def test_folders_that_cannot_be_followed_are_refused_in_words(home, tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")

    for root in (tmp_path / "loop" / "inner", "/tmp/\0", "/tmp/\ud800"):
        with pytest.raises(InvalidCacheSite):
            create(root)

    assert not CacheSite.objects.exists()


def test_the_home_folder_has_its_first_site_beside_the_platforms_folders(home):
    assert cache_sites.ensure_default_site(actor=Actor.system("first start")).root == str(home / "cache")


def test_every_folder_that_the_platform_keeps_in_its_home_is_known():
    apps = ("platform", "compute", "datasets", "experiments", "flows", "scheduler")
    written = {
        name
        for app in apps
        for path in (ROOT / app).rglob("*.py")
        for name in re.findall(r"home\)?(?:\.absolute\(\))?\)?(?: /|,) \"([a-z]+)\"", path.read_text())
    }

    assert written - {"cache", "lock"} == kind._PLATFORM_FOLDERS - {"code"}
