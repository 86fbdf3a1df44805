"""The folder of a site goes away, as a disk that is unmounted: nothing is lost, nothing is written in its place."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from accounts.permissions import Actor
from core import clock, hosts
from datasets.adapters.folder_marks import SITE_MARK, read_mark
from datasets.adapters.sites.folder.copy_folder import make_folder
from datasets.adapters.sites.registry import open_site
from datasets.errors import CacheSiteAway
from datasets.models import CachedCommit, CacheSite
from datasets.selectors import caches as cache_reads
from datasets.selectors import site_readers
from datasets.services import cache_sites, caches
from datasets.workers import cache_hydration, evictions, scrubs, site_checks
from tests.apps.caching.conftest import FILES, cache
from tests.factories.api import call
from tests.factories.browsers import browser_of
from tests.factories.datasets import commit_files, make_dataset, read_tree

pytestmark = pytest.mark.django_db(transaction=True)
START = datetime(2026, 11, 21, 12, tzinfo=UTC)
SYSTEM = Actor.system("test")


class Disk:
    """The folder of a site, which can be taken away and brought back."""

    def __init__(self, site: CacheSite) -> None:
        self._site = site
        self.place = Path(site.root)
        self._away = self.place.with_name("disk")

    def unmount(self) -> None:
        self.place.rename(self._away)
        self.place.mkdir()
        self.check()

    def mount(self) -> None:
        self.place.rmdir()  # so nothing was written there
        self._away.rename(self.place)
        self.check()

    def check(self) -> None:
        site_checks.check_folders()
        self._site.refresh_from_db()


@pytest.fixture
def disk(site):
    return Disk(site)


def tick(worker) -> None:
    """Let everything that ticks look at the copies."""
    cache_hydration.reap()
    evictions.evict_idle()
    scrubs.enqueue_due_scrubs()
    worker.work()


def read_again(row: CachedCommit) -> CachedCommit:
    return CachedCommit.objects.select_related("site", "commit").get(pk=row.pk)


AWAY = (
    "The folder of the cache site local is not there. Is its disk mounted? Site admins read on the page Cache where it "
    "should be."
)


def test_that_a_folder_is_away_is_told_to_all_and_where_it_should_be_to_site_admins(site, disk, member, site_admin):
    disk.unmount()

    assert site_readers.find_fault(member, site, []) == AWAY
    assert site_readers.find_fault(site_admin, site, []) == site.absence
    assert site.absence == (
        f"The folder {site.root} is not there: the folder at its place has no .nearline-site. Is its disk mounted? "
        f"Its mark is {site.mark}."
    )
    disk.mount()
    assert site_readers.find_fault(site_admin, site, []) == ""


def test_pages_and_api_keep_the_path_of_a_folder_from_members(ready, site, disk, member, site_admin):
    disk.unmount()

    for actor, is_told in ((member, False), (site_admin, True)):
        page = browser_of(actor).get("/cache/").content.decode()
        (told,) = call(actor, "GET", "/cache/sites").body["items"]
        assert (site.mark in page, site.mark in told["error"]) == (is_told, is_told)


def test_a_ready_copy_stays_as_it_is_while_it_is_away_however_long(ready, site, disk, worker):
    capacity = cache_reads.measure_capacity(site)
    with clock.frozen_at(START) as move:
        disk.unmount()
        move(START + timedelta(days=40))
        tick(worker)

        row = read_again(ready)
        assert (row.state, row.source, row.error, row.events.filter(kind="damaged").count()) == ("ready", None, "", 0)
        assert cache_reads.measure_capacity(site) == capacity
        disk.mount()
    row = read_again(ready)
    assert row.source == {"kind": "host_folder", "path": row.path}
    assert read_tree(Path(row.path)) == {name: v[0] if isinstance(v, tuple) else v for name, v in FILES.items()}


def test_what_is_asked_for_meanwhile_waits_and_is_filled_once_it_is_back(member, commit, site, disk, worker):
    disk.unmount()

    row = cache(member, commit, site, worker)
    for _ in range(20):
        tick(worker)
    row = read_again(row)
    assert (row.state, row.attempts, row.waits_for) == ("queued", 0, f"its site: {AWAY}")
    assert [event.state for event in row.events.order_by("pk")] == ["queued"]
    disk.mount()
    tick(worker)

    assert read_again(row).state == "ready"


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_copy_in_the_making_waits_and_goes_on(commit, site, disk, worker, is_noted):
    row = caches.request_cache(actor=SYSTEM, commit=commit, site=site)
    CachedCommit.objects.filter(pk=row.pk).update(state="hydrating", bytes_done=10)
    disk.unmount()
    if not is_noted:  # it is seen by the work itself
        CacheSite.objects.update(absence="")

    worker.work()
    tick(worker)

    row = read_again(row)
    assert (row.attempts, row.waits_for, row.error) == (0, f"its site: {AWAY}", "")
    assert row.state == ("hydrating" if is_noted else "queued")
    disk.mount()
    tick(worker)
    assert read_again(row).state == "ready"


def test_a_copy_that_is_cleared_meanwhile_is_removed_once_it_is_back(member, ready, site, disk, worker):
    folder = Path(ready.path)
    disk.unmount()

    caches.uncache(actor=member, cached_commit_id=ready.pk)
    tick(worker)
    row = read_again(ready)
    assert (row.state, row.waits_for, row.reserved_bytes) == (
        "evicting",
        f"its site: {AWAY}",
        ready.reserved_bytes,
    )
    disk.mount()
    tick(worker)

    assert (read_again(ready).state, folder.exists()) == ("gone", False)


def test_nothing_is_evicted_for_others_meanwhile(member, project, ready, site, disk):
    CacheSite.objects.filter(pk=site.pk).update(capacity_bytes=ready.reserved_bytes)
    other = commit_files(member, make_dataset(member, project, "other"), {"a": b"a"})
    disk.unmount()

    with pytest.raises(CacheSiteAway, match="Is its disk mounted"):
        caches.request_cache(actor=member, commit=other, site=site)

    assert read_again(ready).state == "ready"


def test_a_job_goes_to_another_site_and_waits_where_there_is_none(commit, ready, site, disk, tmp_path):
    other = cache_sites.create_site(actor=SYSTEM, name="other", root=tmp_path / "other", capacity_bytes=10**7)
    disk.unmount()
    sites = [site, other]

    chosen = caches.request_nearest(actor=SYSTEM, commit=commit, sites=sites, holder="job-1")
    waiting = caches.request_nearest(actor=SYSTEM, commit=commit, sites=[site], holder="job-2")

    assert (chosen.site, waiting.pk) == (other, ready.pk)
    (held,) = cache_reads.list_held(["job-2"])["job-2"]
    assert (held.is_ready, held.has_failed) == (False, False)
    disk.mount()
    (held,) = cache_reads.list_held(["job-2"])["job-2"]
    assert held.is_ready


def test_a_scrub_that_is_asked_for_meanwhile_is_done_once_it_is_back(member, ready, disk, worker):
    disk.unmount()
    caches.scrub(actor=member, cached_commit_id=ready.pk)

    tick(worker)

    assert read_again(ready).scrub_requested_at is not None
    disk.mount()
    with clock.frozen_at(clock.now() + timedelta(minutes=11)):
        tick(worker)
    row = read_again(ready)
    assert (row.scrub_requested_at, row.events.filter(kind="damaged").count()) == (None, 0)


def test_another_host_is_told_what_the_host_of_the_folder_has_seen(member, commit, site, disk, settings):
    CacheSite.objects.update(host=hosts.this_host())
    disk.unmount()
    settings.NEARLINE = replace(settings.NEARLINE, host_id="another", broker_url="redis://127.0.0.1:1")

    with pytest.raises(CacheSiteAway, match="Is its disk mounted"):
        open_site(site)
    site_checks.check_folders()

    site.refresh_from_db()
    assert site.absence != ""
    assert caches.request_cache(actor=member, commit=commit, site=site).state == "queued"


def make_older(site: CacheSite) -> None:
    """Make a site what an earlier version had made of it."""
    CacheSite.objects.filter(pk=site.pk).update(mark="")
    (Path(site.root) / SITE_MARK).unlink()


def marks_of(site: CacheSite) -> tuple[str, str]:
    site.refresh_from_db()
    return site.mark, read_mark(Path(site.root), SITE_MARK)


@pytest.mark.usefixtures("ready")
def test_the_folder_of_an_earlier_version_is_marked_where_it_holds_what_was_cached(site, disk):
    make_older(site)

    disk.check()

    row_mark, folder_mark = marks_of(site)
    assert len(row_mark) == 32
    assert (folder_mark, site.absence) == (row_mark, "")


@pytest.mark.usefixtures("ready")
def test_a_folder_that_was_away_at_the_update_is_marked_once_it_is_back(site, disk):
    make_older(site)

    disk.unmount()

    assert marks_of(site) == ("", "")
    assert site.absence.endswith("has no .nearline-site. Is its disk mounted?")
    assert list(disk.place.iterdir()) == []
    disk.mount()
    assert all(marks_of(site))
    assert site.absence == ""


def test_the_folder_of_a_site_that_another_host_was_told_of_is_made_by_its_host(site, tmp_path, disk):
    CacheSite.objects.filter(pk=site.pk).update(mark="", root=str(tmp_path / "new"))

    disk.check()

    assert len(site.mark) == 32
    assert site.mark == read_mark(tmp_path / "new", SITE_MARK)


def test_the_mark_that_the_fault_names_makes_a_new_folder_that_of_the_site(site, disk):
    disk.unmount()
    (disk.place / SITE_MARK).write_text(site.mark + "\n")

    disk.check()

    assert site.absence == ""


class TestInTheHome:
    """The site `local`, which every start looks at."""

    @pytest.fixture
    def home(self, settings, site, tmp_path):
        settings.NEARLINE = replace(settings.NEARLINE, home=tmp_path)
        assert Path(site.root) == tmp_path / "cache"
        return tmp_path

    def test_it_follows_its_home(self, home, ready, settings, site, worker):
        moved = home.rename(home.with_name("moved"))
        settings.NEARLINE = replace(settings.NEARLINE, home=moved)

        cache_sites.ensure_default_site(actor=SYSTEM)
        site_checks.check_folders()

        row = read_again(ready)
        assert (row.site.root, row.site.absence) == (str(moved / "cache"), "")
        assert Path(row.source["path"]).is_relative_to(moved)
        assert not home.exists()

    def test_a_folder_that_was_removed_is_made_again(self, home, site):
        (home / "cache").rename(home / "removed")

        cache_sites.ensure_default_site(actor=SYSTEM)

        site.refresh_from_db()
        assert open_site(site).list() == {}

    def test_one_whose_disk_is_not_mounted_stays_as_it_is(self, home, site, disk):
        mark = site.mark
        disk.unmount()

        cache_sites.ensure_default_site(actor=SYSTEM)

        assert marks_of(site) == (mark, "")
        assert list((home / "cache").iterdir()) == []


def test_the_folder_of_a_job_is_away_only_with_the_site_that_it_lies_in(site, disk, tmp_path):
    make_folder(tmp_path / "elsewhere")
    disk.unmount()

    assert cache_reads.find_absence(f"{site.root}/team-a/xrays/c1") == AWAY
    assert cache_reads.find_absence(str(tmp_path / "elsewhere" / "c1")) == ""
    disk.mount()
    assert cache_reads.find_absence(f"{site.root}/team-a/xrays/c1") == ""
