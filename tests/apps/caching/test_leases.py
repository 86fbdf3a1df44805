"""Workers die, sleep and come twice: one of them works, the others change nothing."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import OperationalError, connection

from accounts.permissions import Actor
from core import clock, isolation, tasks
from datasets.adapters.sites.registry import open_site
from datasets.errors import CacheSiteUnavailable, StagingLost
from datasets.models import CachedCommit, CachedCommitEvent
from datasets.selectors import failures
from datasets.services import cache_sites, caches
from datasets.workers import cache_hydration, scrubs
from nearline.content.manifest import Entry
from tests.apps.caching.conftest import FILES
from tests.factories.datasets import commit_files, read_tree

pytestmark = pytest.mark.django_db(transaction=True)
START = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def time():
    with clock.frozen_at(START) as move:
        yield move


def test_a_message_that_was_lost_is_found_by_the_tick(member, commit, site, worker):
    row = caches.request_cache(actor=member, commit=commit, site=site)
    worker.messages.clear()

    tasks.run("datasets.reap", {})
    worker.work()

    row.refresh_from_db()
    assert row.state == "ready"


def test_rings_that_come_twice_and_late_change_nothing(member, commit, site, worker):
    row = caches.request_cache(actor=member, commit=commit, site=site)
    worker.work()
    row.refresh_from_db()
    before = CachedCommit.objects.filter(pk=row.pk).values().get()

    for task in ("datasets.hydrate", "datasets.evict", "datasets.scrub", "datasets.hydrate"):
        tasks.run(task, {"cached_commit_id": row.pk})

    assert CachedCommit.objects.filter(pk=row.pk).values().get() == before
    assert CachedCommitEvent.objects.filter(state="hydrating").count() == 1


def test_a_worker_that_meets_an_unforeseen_error_lets_the_next_go_on_at_once(member, commit, site, worker):
    row = caches.request_cache(actor=member, commit=commit, site=site)

    def be_busy(execute, sql, params, many, context):
        if sql.startswith('UPDATE "datasets_cachedcommit"') and "hydrating" in params:
            raise OperationalError("database is locked")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(be_busy), pytest.raises(OperationalError):
        cache_hydration.hydrate_cached_commit(cached_commit_id=row.pk)
    cache_hydration.hydrate_cached_commit(cached_commit_id=row.pk)

    row.refresh_from_db()
    assert (row.state, row.files_done) == ("ready", len(FILES))


def test_while_one_worker_has_the_lease_another_does_nothing(member, commit, site, worker, time):
    row = caches.request_cache(actor=member, commit=commit, site=site)
    lease = {"state": "hydrating", "lease_token": "other", "lease_expires_at": START + timedelta(seconds=15)}
    CachedCommit.objects.filter(pk=row.pk).update(**lease)

    worker.work()

    row.refresh_from_db()
    assert (row.state, row.lease_token) == ("hydrating", "other")


def test_what_a_dead_worker_left_is_taken_over_and_its_files_are_used(member, commit, site, worker, time):
    row = caches.request_cache(actor=member, commit=commit, site=site)
    worker.messages.clear()
    lease = {"state": "hydrating", "lease_token": "dead", "lease_expires_at": START + timedelta(seconds=15)}
    CachedCommit.objects.filter(pk=row.pk).update(**lease)
    left = open_site(site).folder.stage(row.pk, "dead").folder
    (left / "b").mkdir()
    (left / "b" / "big.bin").write_bytes(FILES["b/big.bin"])
    (left / "a").mkdir()
    (left / "a" / "one.png").write_bytes(b"half of it")
    time(START + timedelta(seconds=16))

    assert cache_hydration.reap() == 1
    worker.work()

    row.refresh_from_db()
    assert row.state == "ready"
    assert read_tree(Path(row.path))["a/one.png"] == FILES["a/one.png"]
    assert row.bytes_moved < 10_000
    assert row.events.filter(kind="taken_over").count() == 1


def test_a_worker_that_slept_through_its_lease_can_no_longer_change_anything(member, commit, site, worker, time):
    row = caches.request_cache(actor=member, commit=commit, site=site)
    worker.messages.clear()
    sleeper = cache_hydration._claim(row.pk)
    staging = open_site(site).folder.stage(row.pk, sleeper.lease_token)
    time(START + timedelta(seconds=16))
    cache_hydration.hydrate_cached_commit(cached_commit_id=row.pk)
    row.refresh_from_db()
    assert row.state == "ready"
    before = CachedCommit.objects.filter(pk=row.pk).values().get()

    with pytest.raises(StagingLost):
        staging.share(Entry(b"late", 0o644, 1, 0, b""), base=row.location, base_path=b"a/one.png") or staging.publish(
            "x/y/z", files=0
        )
    cache_hydration._fail(sleeper, CacheSiteUnavailable("I thought so."))

    assert CachedCommit.objects.filter(pk=row.pk).values().get() == before


def test_a_file_in_staging_that_is_not_of_the_commit_never_becomes_visible(member, commit, site, worker, time):
    row = caches.request_cache(actor=member, commit=commit, site=site)
    (open_site(site).folder.stage(row.pk, "dead").folder / "stray").write_bytes(b"x")

    worker.work()

    row.refresh_from_db()
    assert (row.state, row.error_code) == ("failed", "datasets.cache_site_unavailable")
    assert "Another number of files was staged (8) than the commit has (7)" in row.error
    assert not Path(site.root, row.location).exists()
    again = caches.request_cache(actor=member, commit=commit, site=site)
    worker.work()
    again.refresh_from_db()
    assert again.state == "ready"


def test_workers_that_die_without_getting_on_are_given_up_on(member, commit, site, worker, time):
    row = caches.request_cache(actor=member, commit=commit, site=site)
    worker.messages.clear()
    for number in range(10):
        time(START + timedelta(minutes=number))
        assert cache_hydration._claim(row.pk) is not None
    time(START + timedelta(minutes=10))

    assert cache_hydration._claim(row.pk) is None

    row.refresh_from_db()
    assert (row.state, row.error_code) == ("failed", "datasets.cache_given_up")


def test_a_failed_one_says_why_and_goes_on_when_asked_again(member, commit, site, worker, dataset):
    store = Path(dataset.store.location)
    packs = [p for p in store.rglob("packs/*/*") if p.is_file()]
    data = packs[0].read_bytes()
    packs[0].chmod(0o644)
    packs[0].unlink()
    row = caches.request_cache(actor=member, commit=commit, site=site)
    worker.work()
    row.refresh_from_db()
    assert (row.state, row.error_code) == ("failed", "datasets.blob_missing")
    assert row.error
    assert row.error_hint
    packs[0].write_bytes(data)

    again = caches.request_cache(actor=member, commit=commit, site=site)
    worker.work()

    again.refresh_from_db()
    assert (again.pk, again.state, again.error) == (row.pk, "ready", "")


def test_copies_that_wait_hold_up_no_other(member, dataset, site, worker):
    other_site = cache_sites.create_site(
        actor=Actor.system("test"), name="other", root=Path(site.root).with_name("other"), capacity_bytes=10_000_000
    )
    first, second = commit_files(member, dataset, {"a": b"1"}), commit_files(member, dataset, {"a": b"2"})
    late = commit_files(member, dataset, {"a": b"3"})
    waiting = [caches.request_cache(actor=member, commit=commit, site=site).pk for commit in (first, second)]
    CachedCommit.objects.filter(pk__in=waiting).update(waits_for="the copies that local fills before it")
    last = caches.request_cache(actor=member, commit=late, site=other_site)
    worker.messages.clear()

    cache_hydration.reap(limit=1)

    assert ("datasets.hydrate", {"cached_commit_id": last.pk}) in worker.messages


def test_copies_whose_hydration_fails_hold_up_no_other(member, dataset, site, worker, time):
    rows = [
        caches.request_cache(actor=member, commit=commit_files(member, dataset, {"a": data}), site=site)
        for data in (b"1", b"2")
    ]
    worker.messages.clear()
    isolation.for_each(failures.HYDRATE, [rows[0].pk], lambda _: 1 / 0)
    time(START + timedelta(hours=1))

    cache_hydration.reap(limit=1)

    assert worker.messages == [("datasets.hydrate", {"cached_commit_id": rows[1].pk})]


def test_copies_whose_scrub_fails_hold_up_no_other(member, dataset, site, worker, time):
    rows = [
        caches.request_cache(actor=member, commit=commit_files(member, dataset, {"a": data}), site=site)
        for data in (b"1", b"2")
    ]
    worker.work()
    isolation.for_each(failures.SCRUB, [rows[0].pk], lambda _: 1 / 0)
    time(START + timedelta(days=2))

    scrubs.enqueue_due_scrubs(limit=1)

    assert worker.messages == [("datasets.scrub", {"cached_commit_id": rows[1].pk})]
