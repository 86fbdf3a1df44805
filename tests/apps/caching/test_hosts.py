"""A site in a folder belongs to one host: its workers alone fill, scrub and empty it; any process may ask for copies."""

from dataclasses import replace
from pathlib import Path

import pytest

from accounts.permissions import Actor
from core import hosts, leases
from datasets.adapters.sites.registry import open_site
from datasets.errors import CacheSiteUnavailable, InvalidCacheSite
from datasets.models import CacheSite
from datasets.services import cache_rows, cache_sites, caches
from datasets.workers import cache_hydration, site_checks
from tests.apps.caching.conftest import FILES
from tests.factories.datasets import read_tree

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def elsewhere(settings, site):
    """A process of another host than the one that has the site's folder."""
    CacheSite.objects.filter(pk=site.pk).update(host="a")
    site.refresh_from_db()
    before = settings.NEARLINE
    settings.NEARLINE = replace(before, host_id="b", broker_url="redis://127.0.0.1:1")
    yield site
    settings.NEARLINE = before


def test_a_copy_that_any_process_asks_for_is_filled_by_the_host_that_has_the_folder(
    member, commit, elsewhere, worker, settings
):
    row = caches.request_cache(actor=member, commit=commit, site=elsewhere)
    worker.work()
    row.refresh_from_db()
    asked = row.state
    settings.NEARLINE = replace(settings.NEARLINE, host_id="a")
    cache_hydration.reap()
    worker.work()
    row.refresh_from_db()

    assert (asked, row.state) == ("queued", "ready")
    assert read_tree(Path(row.path)) == {name: v[0] if isinstance(v, tuple) else v for name, v in FILES.items()}


def test_a_copy_is_removed_by_the_host_that_has_it(member, ready, elsewhere, worker, settings):
    folder = Path(ready.path)
    caches.uncache(actor=member, cached_commit_id=ready.pk)
    worker.work()
    ready.refresh_from_db()
    asked = (ready.state, folder.exists())
    settings.NEARLINE = replace(settings.NEARLINE, host_id="a")
    cache_hydration.reap()
    worker.work()
    ready.refresh_from_db()

    assert (asked, ready.state, folder.exists()) == (("evicting", True), "gone", False)


def test_of_a_folder_on_another_host_its_capacity_is_known(elsewhere):
    assert cache_rows.measure_disk(elsewhere) == elsewhere.capacity_bytes


def test_a_site_on_another_host_needs_a_capacity_and_its_folder_is_not_touched(elsewhere, tmp_path):
    admin = Actor.system("test")
    hosts.take(holder="bee:1")
    leases.take_named("host:a", holder="ant:1", for_s=10)

    with pytest.raises(InvalidCacheSite, match="Give the capacity"):
        cache_sites.create_site(actor=admin, name="far", root=tmp_path / "far", host="ant")
    made = cache_sites.create_site(actor=admin, name="far", root=tmp_path / "far", host="ant", capacity_bytes=10**9)

    assert (made.host, (tmp_path / "far").exists()) == ("a", False)
    assert CacheSite.objects.filter(name="far").count() == 1


def test_a_site_of_an_earlier_version_is_taken_by_the_host_that_has_its_folder(elsewhere, site, tmp_path):
    CacheSite.objects.filter(pk=site.pk).update(host=hosts.UNBOUND)
    gone = CacheSite.objects.create(name="gone", root=str(tmp_path / "none"), capacity_bytes=1, host=hosts.UNBOUND)

    site_checks.bind_sites()

    site.refresh_from_db()
    gone.refresh_from_db()
    assert (site.host, gone.host) == ("b", hosts.UNBOUND)


def test_a_driver_of_another_hosts_folder_says_whose_it_is(elsewhere):
    with pytest.raises(CacheSiteUnavailable, match="is a folder of the host a"):
        open_site(elsewhere).list()
