"""A simulated site does not exist, and is kept in the database as one that does: by its declared size and rate."""

from datetime import UTC, datetime, timedelta

import pytest

from accounts.permissions import Actor
from core import clock, tasks
from datasets.errors import CacheFull, CacheInUse, InvalidCacheSite
from datasets.models import CachedCommit, CacheSite
from datasets.selectors import cache_plans
from datasets.selectors import caches as reads
from datasets.services import cache_sites, caches
from datasets.workers import evictions
from tests.factories.datasets import commit_files

pytestmark = pytest.mark.django_db(transaction=True)
START = datetime(2026, 11, 21, 12, tzinfo=UTC)
FIRST = {"a": b"1" * 6000, "b": b"2" * 4000}
SECOND = {"a": b"1" * 6000, "c": b"3" * 2000}
SYSTEM = Actor.system("test")


@pytest.fixture(autouse=True)
def time():
    with clock.frozen_at(START) as move:
        yield lambda seconds: move(START + timedelta(seconds=seconds))


@pytest.fixture
def site(db):
    return make_site("lab-cache")


def make_site(name: str, *, size_bytes: int = 25_000, rate_bytes_s: int = 1000) -> CacheSite:
    config = {"size_bytes": size_bytes, "rate_bytes_s": rate_bytes_s}
    return cache_sites.create_site(actor=SYSTEM, name=name, kind="simulated", config=config)


def tick(worker) -> None:
    tasks.run("datasets.reap", {})
    worker.work()


def test_a_copy_takes_as_long_as_the_declared_rate_says(member, dataset, site, worker, time):
    row = caches.request_cache(actor=member, commit=commit_files(member, dataset, FIRST), site=site)
    assert row.state == "queued"

    worker.work()
    time(4)
    tick(worker)
    row.refresh_from_db()
    assert (row.state, row.bytes_done, row.percent, row.eta_s) == ("hydrating", 4000, 40, 6.0)
    assert (row.files_done, row.bytes_moved, row.attempts) == (0, 4000, 0)

    time(9)
    tick(worker)
    row.refresh_from_db()
    assert row.state == "hydrating"
    time(10)
    tick(worker)
    row.refresh_from_db()
    assert (row.state, row.files_done, row.bytes_done, row.bytes_moved) == ("ready", 2, 10_000, 10_000)
    assert row.ready_at == START + timedelta(seconds=10)
    assert cache_plans.measure_rate(site) == 1000.0
    assert [event.state for event in row.events.order_by("pk")] == ["queued", "provisioning", "hydrating", "ready"]


def test_it_is_asked_about_as_often_as_it_takes_without_counting_as_lost(member, dataset, site, worker, time):
    row = caches.request_cache(actor=member, commit=commit_files(member, dataset, FIRST), site=site)
    worker.work()

    for _ in range(30):
        tick(worker)
    time(10)
    tick(worker)

    row.refresh_from_db()
    assert row.state == "ready"
    assert not row.events.filter(kind="taken_over").exists()


def test_a_second_commit_moves_and_takes_only_what_is_new(member, dataset, site, worker, time):
    caches.request_cache(actor=member, commit=commit_files(member, dataset, FIRST), site=site)
    worker.work()
    time(10)
    tick(worker)

    second = caches.request_cache(actor=member, commit=commit_files(member, dataset, SECOND), site=site)
    worker.work()
    time(12)
    tick(worker)

    second.refresh_from_db()
    assert (second.state, second.bytes_shared, second.bytes_moved) == ("ready", 6000, 2000)
    assert reads.measure_capacity(site).committed_bytes == 12_000


def test_one_copy_is_filled_at_a_time_and_the_next_begins_when_it_is_ready(member, dataset, site, worker, time):
    first = caches.request_cache(actor=member, commit=commit_files(member, dataset, FIRST), site=site)
    second = caches.request_cache(actor=member, commit=commit_files(member, dataset, {"z": b"z" * 1000}), site=site)

    worker.work()
    second.refresh_from_db()
    assert (second.state, second.waits_for) == ("queued", "the copies that lab-cache fills before it")
    time(10)
    tick(worker)
    time(11)
    tick(worker)

    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, second.state) == ("ready", "ready")
    assert (second.ready_at - first.ready_at) == timedelta(seconds=1)


def test_a_copy_on_another_simulated_site_is_where_the_bytes_come_from(member, dataset, site, worker, time):
    commit = commit_files(member, dataset, FIRST)
    caches.request_cache(actor=member, commit=commit, site=site)
    worker.work()
    time(10)
    tick(worker)

    copy = caches.request_cache(actor=member, commit=commit, site=make_site("second", rate_bytes_s=5000))
    worker.work()
    time(12)
    tick(worker)

    copy.refresh_from_db()
    assert (copy.state, copy.bytes_copied, copy.bytes_moved) == ("ready", 10_000, 0)


def test_a_full_site_evicts_what_nobody_holds_and_refuses_when_all_is_held(member, dataset, site, worker, time):
    first = caches.request_cache(actor=member, commit=commit_files(member, dataset, FIRST), site=site)
    worker.work()
    time(10)
    tick(worker)
    big = commit_files(member, dataset, {"big": b"b" * 20_000})
    caches.hold(actor=member, cached_commit_id=first.pk, holder="job:1", why="read by job 1")

    with pytest.raises(CacheFull):
        caches.request_cache(actor=member, commit=big, site=site)
    with pytest.raises(CacheInUse):
        caches.uncache(actor=member, cached_commit_id=first.pk)
    first.refresh_from_db()
    assert first.state == "ready"

    caches.release_holds(actor=Actor.system("test"), holder="job:1")
    second = caches.request_cache(actor=member, commit=big, site=site)
    tick(worker)
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, first.reserved_bytes, second.state) == ("gone", 0, "hydrating")


def test_the_end_of_a_base_leaves_its_clones_charged_for_what_they_share(member, dataset, site, worker, time):
    first = caches.request_cache(actor=member, commit=commit_files(member, dataset, FIRST), site=site)
    worker.work()
    time(10)
    tick(worker)
    second = caches.request_cache(actor=member, commit=commit_files(member, dataset, SECOND), site=site)
    worker.work()
    time(12)
    tick(worker)

    caches.uncache(actor=member, cached_commit_id=first.pk)
    worker.work()

    second.refresh_from_db()
    assert second.reserved_bytes == 8000
    assert reads.measure_capacity(site).committed_bytes == 8000
    caches.uncache(actor=member, cached_commit_id=second.pk)
    worker.work()
    assert reads.measure_capacity(site).committed_bytes == 0


def test_a_copy_that_is_cleared_on_its_way_is_gone(member, dataset, site, worker):
    row = caches.request_cache(actor=member, commit=commit_files(member, dataset, FIRST), site=site)
    worker.work()

    caches.uncache(actor=member, cached_commit_id=row.pk)
    worker.work()

    row.refresh_from_db()
    assert (row.state, reads.measure_capacity(site).committed_bytes) == ("gone", 0)


def test_scrubs_and_sweeps_find_nothing_to_do(member, dataset, site, worker, time):
    row = caches.request_cache(actor=member, commit=commit_files(member, dataset, FIRST), site=site)
    worker.work()
    time(10)
    tick(worker)

    caches.scrub(actor=member, cached_commit_id=row.pk)
    worker.work()
    assert evictions.sweep_leftovers() == 0

    row.refresh_from_db()
    assert (row.state, row.scrub_requested_at, row.error) == ("ready", None, "")


@pytest.mark.parametrize(
    "config",
    [{}, {"size_bytes": 10}, {"size_bytes": 0, "rate_bytes_s": 1}, {"size_bytes": 1, "rate_bytes_s": 1, "x": 1}],
)
def test_without_a_size_and_a_rate_there_is_no_simulated_site(db, config):
    with pytest.raises(InvalidCacheSite):
        cache_sites.create_site(actor=SYSTEM, name="lab-cache", kind="simulated", config=config)

    assert not CacheSite.objects.exists()


def test_an_unknown_kind_is_refused(db, tmp_path):
    with pytest.raises(InvalidCacheSite, match="'tape' is no kind of cache site"):
        cache_sites.create_site(actor=SYSTEM, name="x", kind="tape", root=tmp_path)

    assert not CacheSite.objects.exists()
    assert not CachedCommit.objects.exists()
