"""Leaving a site: idle for too long, cleared by a click, never while someone needs it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from accounts.errors import PermissionDenied
from accounts.permissions import Actor
from core import clock
from datasets.adapters.sites.registry import open_site
from datasets.errors import CacheInUse, CachePinned, StagingLost
from datasets.models import CachedCommit
from datasets.selectors import caches as cache_reads
from datasets.services import caches
from datasets.workers import cache_hydration, evictions
from tests.apps.caching.conftest import SIZE
from tests.factories.datasets import read_tree
from tests.interleaving import happens_after

pytestmark = pytest.mark.django_db(transaction=True)
START = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def time():
    with clock.frozen_at(START) as move:
        yield move


@pytest.fixture
def ready(time, ready):
    return ready


def state_of(row):
    return CachedCommit.objects.get(pk=row.pk).state


def test_unused_for_a_day_a_commit_leaves_and_its_space_returns(ready, site, time, worker):
    path = Path(ready.path)
    time(START + DAY - timedelta(seconds=1))
    assert evictions.evict_idle() == 0
    time(START + DAY)

    assert evictions.evict_idle() == 1
    worker.work()

    assert state_of(ready) == "gone"
    assert not path.exists()
    assert cache_reads.measure_capacity(site).committed_bytes == 0


def test_use_restarts_the_clock_and_is_written_at_most_once_a_minute(ready, commit, time):
    time(START + timedelta(seconds=59))
    caches.request_cache(actor=Actor.system("early"), commit=commit, site=ready.site)
    ready.refresh_from_db()
    assert ready.last_used_at == START

    time(START + timedelta(hours=20))
    caches.request_cache(actor=Actor.system("late"), commit=commit, site=ready.site)
    time(START + DAY)

    ready.refresh_from_db()
    assert (evictions.evict_idle(), ready.last_used_by) == (0, "system: late")
    assert cache_reads.evicts_at(ready) == START + timedelta(hours=44)


def test_a_read_in_the_browser_restarts_the_clock(ready, member, commit, time):
    time(START + timedelta(hours=20))
    caches.touch_commit(actor=member, commit=commit)
    time(START + DAY)

    assert evictions.evict_idle() == 0


@pytest.mark.parametrize(
    ("of_site", "of_dataset", "leaves"),
    [(1, None, True), (0, None, False), (1, 0, False), (0, 1, True), (3, 1, True), (1, 3, False)],
)
@pytest.mark.usefixtures("ready")
def test_the_datasets_word_goes_before_the_sites(site, dataset, time, *, of_site, of_dataset, leaves):
    site.idle_days = of_site
    site.save()
    dataset.idle_days = of_dataset
    dataset.save()
    time(START + 2 * DAY)

    assert evictions.evict_idle() == leaves


def test_what_is_held_stays_until_a_day_after_its_release(ready, member, time):
    caches.hold(actor=member, cached_commit_id=ready.pk, holder="job-1", why="read by train-1")
    time(START + 9 * DAY)
    assert evictions.evict_idle() == 0
    assert caches.release_holds(actor=Actor.system("test"), holder="job-1") == 1

    assert evictions.evict_idle() == 0
    time(START + 10 * DAY)
    assert evictions.evict_idle() == 1


def test_what_is_pinned_stays(ready, member, time):
    caches.set_pinned(actor=member, cached_commit_id=ready.pk, is_pinned=True)
    time(START + 99 * DAY)
    assert evictions.evict_idle() == 0

    caches.set_pinned(actor=member, cached_commit_id=ready.pk, is_pinned=False)
    assert evictions.evict_idle() == 0
    time(START + 100 * DAY)
    assert evictions.evict_idle() == 1


def test_what_is_queued_for_is_never_evicted(member, commit, site, time, worker):
    row = caches.request_cache(actor=member, commit=commit, site=site, holder="job-1", why="wanted by train-1")
    worker.work()
    time(START + 9 * DAY)

    assert evictions.evict_idle() == 0
    with pytest.raises(CacheInUse) as raised:
        caches.uncache(actor=member, cached_commit_id=row.pk)
    assert raised.value.details["users"] == ["wanted by train-1"]
    assert state_of(row) == "ready"


def test_clearing_takes_the_copy_out_of_sight_before_its_files_are_removed(ready, member, worker):
    path = Path(ready.path)

    caches.uncache(actor=member, cached_commit_id=ready.pk)
    worker.work()

    assert state_of(ready) == "gone"
    assert not path.exists()
    assert [e.message for e in ready.events.order_by("pk") if e.state == "evicting"] == ["Cleared by member."]


def test_clearing_what_is_pinned_is_refused(ready, member):
    caches.set_pinned(actor=member, cached_commit_id=ready.pk, is_pinned=True)

    with pytest.raises(CachePinned):
        caches.uncache(actor=member, cached_commit_id=ready.pk)

    assert state_of(ready) == "ready"


def test_a_viewer_can_neither_cache_nor_clear_nor_pin(ready, viewer, commit, site):
    for deed in (
        lambda: caches.request_cache(actor=viewer, commit=commit, site=site),
        lambda: caches.uncache(actor=viewer, cached_commit_id=ready.pk),
        lambda: caches.set_pinned(actor=viewer, cached_commit_id=ready.pk, is_pinned=True),
        lambda: caches.scrub(actor=viewer, cached_commit_id=ready.pk),
        lambda: caches.hold(actor=viewer, cached_commit_id=ready.pk, holder="me", why="for fun"),
    ):
        with pytest.raises(PermissionDenied):
            deed()

    ready.refresh_from_db()
    assert (ready.state, ready.is_pinned, ready.holds.count(), ready.scrub_requested_at) == ("ready", False, 0, None)


def test_a_commit_cleared_while_it_is_queued_is_never_filled(member, commit, site, worker):
    row = caches.request_cache(actor=member, commit=commit, site=site)
    caches.uncache(actor=member, cached_commit_id=row.pk)

    worker.work()

    assert state_of(row) == "gone"
    assert CachedCommit.objects.get(pk=row.pk).bytes_moved == 0


def test_a_worker_that_fills_a_copy_which_was_cleared_cannot_publish_it(member, commit, site, worker):
    row = caches.request_cache(actor=member, commit=commit, site=site)
    worker.messages.clear()
    filling = cache_hydration._claim(row.pk)
    staging = open_site(site).folder.stage(row.pk, filling.lease_token)
    caches.uncache(actor=member, cached_commit_id=row.pk)

    worker.work()

    with pytest.raises(StagingLost):
        staging.publish(row.location, files=0)
    assert state_of(row) == "gone"
    assert not Path(site.root, row.location).exists()


def test_asked_for_again_while_it_leaves_it_comes_back_after_that(ready, member, commit, site, worker):
    caches.uncache(actor=member, cached_commit_id=ready.pk)
    again = caches.request_cache(actor=member, commit=commit, site=site)
    assert again.pk != ready.pk

    worker.work()

    again.refresh_from_db()
    assert (state_of(ready), again.state) == ("gone", "ready")
    assert sum(map(len, map(str.encode, (k for k in read_tree(Path(again.path)) if k == "link")))) == 4
    assert again.bytes_total == SIZE


def test_a_removal_that_was_cut_short_goes_on(ready, member, worker, time):
    caches.uncache(actor=member, cached_commit_id=ready.pk)
    worker.messages.clear()
    # A worker took the lease and died.
    CachedCommit.objects.filter(pk=ready.pk).update(lease_token="dead", lease_expires_at=START + timedelta(seconds=15))
    evictions.remove_copy(cached_commit_id=ready.pk)
    assert state_of(ready) == "evicting"
    time(START + timedelta(seconds=16))

    evictions.remove_copy(cached_commit_id=ready.pk)

    assert state_of(ready) == "gone"


def test_a_removal_waits_for_a_site_that_does_not_work_and_says_so(ready, site, member, worker):
    caches.uncache(actor=member, cached_commit_id=ready.pk)
    root = Path(site.root)
    root.rename(root.with_name("away"))
    root.touch()

    evictions.remove_copy(cached_commit_id=ready.pk)

    ready.refresh_from_db()
    assert (ready.state, ready.lease_token) == ("evicting", "")
    assert ready.waits_for.startswith("its site: ")
    root.unlink()
    root.with_name("away").rename(root)
    evictions.remove_copy(cached_commit_id=ready.pk)
    assert state_of(ready) == "gone"


def test_who_asks_while_the_last_holder_lets_go_gets_a_copy_that_comes(member, commit, site):
    held = caches.request_cache(actor=member, commit=commit, site=site, holder="job-1")

    with happens_after("SELECT", lambda: caches.release_holds(actor=Actor.system("test"), holder="job-1")):
        copy = caches.request_cache(actor=member, commit=commit, site=site)

    assert (state_of(held), state_of(copy)) == ("evicting", "queued")


def test_who_asks_again_while_a_failed_copy_is_cleared_gets_another_one(member, commit, site):
    failed = caches.request_cache(actor=member, commit=commit, site=site)
    CachedCommit.objects.filter(pk=failed.pk).update(state="failed")

    with happens_after('state" = %s', lambda: caches.uncache(actor=member, cached_commit_id=failed.pk)):
        copy = caches.request_cache(actor=member, commit=commit, site=site, holder="job-1")

    assert (state_of(failed), state_of(copy)) == ("evicting", "queued")
    assert copy.holds.get().holder == "job-1"


def test_copies_of_a_deleted_dataset_leave_unless_a_job_reads_them(ready, dataset, member, worker, time):
    dataset.deleted_at = START
    dataset.save()
    caches.hold(actor=member, cached_commit_id=ready.pk, holder="job-1", why="read by train-1")
    assert evictions.evict_idle() == 0

    caches.release_holds(actor=Actor.system("test"), holder="job-1")

    assert evictions.evict_idle() == 1


def test_leftovers_that_no_row_wants_are_swept(ready, site):
    root = Path(site.root)
    (root / ".trash" / "cc_unknown").mkdir()
    (root / ".trash" / "cc_unknown" / "file").write_text("x")
    (root / ".staging" / "cc_lost.1234").mkdir()
    volume = open_site(site).folder
    volume.stage("cc_orphan", "t1").publish("team-a/xrays/orphan", files=0)

    assert evictions.sweep_leftovers() == 3

    assert not (root / "team-a/xrays/orphan").exists()

    assert [p.name for d in (".trash", ".staging") for p in (root / d).iterdir() if not p.name.startswith(".")] == []
    assert Path(ready.path).is_dir()
