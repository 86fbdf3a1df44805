"""Space on a site is promised once: what fits, what leaves for it, and what is in the way."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import Project
from core import clock
from datasets.errors import CacheFull
from datasets.models import CachedCommit
from datasets.selectors import caches as cache_reads
from datasets.services import cache_sites, caches
from tests.apps.caching.conftest import cache
from tests.factories.datasets import commit_files, make_dataset

pytestmark = pytest.mark.django_db(transaction=True)
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def small(site, site_admin):
    """The site with capacity for 1,000 bytes."""
    return cache_sites.update_site(actor=site_admin, site=site, capacity_bytes=1000)


@pytest.fixture
def make_commit(member, dataset, project):
    """Return a function that makes a commit of so many bytes in a dataset of its own."""

    def make(name, size):
        return commit_files(member, make_dataset(member, project, name), {"data": name.encode()[:1] * size})

    return make


@pytest.fixture
def time():
    with clock.frozen_at(NOW) as move:
        yield move


def states():
    return {row.dataset.name: row.state for row in CachedCommit.objects.select_related("dataset").order_by("pk")}


def test_a_full_site_evicts_the_least_recently_used(member, small, worker, make_commit, time):
    old = cache(member, make_commit("old", 400), small, worker)
    time(NOW + timedelta(minutes=5))
    cache(member, make_commit("young", 400), small, worker)

    cache(member, make_commit("new", 500), small, worker)

    assert states() == {"old": "gone", "young": "ready", "new": "ready"}
    assert old.events.filter(state="evicting").get().message.startswith("Evicted to free space for team-a/new@")


def test_a_touched_commit_outlives_an_untouched_one(member, small, worker, make_commit, time):
    old = cache(member, make_commit("old", 400), small, worker)
    time(NOW + timedelta(minutes=5))
    cache(member, make_commit("young", 400), small, worker)
    time(NOW + timedelta(minutes=10))
    caches.request_cache(actor=member, commit=old.commit, site=small)

    cache(member, make_commit("new", 500), small, worker)

    assert states() == {"old": "ready", "young": "gone", "new": "ready"}


def test_without_room_the_error_names_every_obstacle_and_nothing_changes(member, small, worker, make_commit):
    pinned = cache(member, make_commit("pinned", 300), small, worker)
    caches.set_pinned(actor=member, cached_commit_id=pinned.pk, is_pinned=True)
    cache(member, make_commit("used", 300), small, worker, holder="j1", why="read by train-1")
    cache(member, make_commit("idle", 100), small, worker)
    commit = make_commit("new", 500)

    with pytest.raises(CacheFull) as raised:
        caches.request_cache(actor=member, commit=commit, site=small)

    labels = [
        (item["label"].partition("@")[0], item["size_bytes"], item["reason"])
        for item in raised.value.details["obstacles"]
    ]
    assert labels == [("team-a/pinned", 300, "pinned"), ("team-a/used", 300, "in use: read by train-1")]
    assert raised.value.details["missing_bytes"] == 100
    assert "in use: read by train-1" in raised.value.message
    assert states() == {"pinned": "ready", "used": "ready", "idle": "ready"}


def test_what_is_asked_for_but_not_there_yet_has_its_space_already(member, small, worker, make_commit):
    caches.request_cache(actor=member, commit=make_commit("first", 600), site=small)

    with pytest.raises(CacheFull) as raised:
        caches.request_cache(actor=member, commit=make_commit("second", 600), site=small)

    assert raised.value.details["obstacles"][0]["reason"] == "being cached now"
    assert cache_reads.measure_capacity(small).committed_bytes == 600


def test_a_commit_larger_than_the_site_is_refused_with_the_size_of_the_site(member, small, worker, make_commit):
    cache(member, make_commit("idle", 900), small, worker)

    with pytest.raises(CacheFull, match=r"The whole site holds 1\.0 kB"):
        caches.request_cache(actor=member, commit=make_commit("huge", 1001), site=small)

    assert states() == {"idle": "ready"}


def test_a_small_change_fits_into_a_full_site_beside_its_base(member, dataset, small, worker):
    first = cache(member, commit_files(member, dataset, {"a": b"a" * 890, "b": b"b"}), small, worker)

    second = cache(member, commit_files(member, dataset, {"a": b"a" * 890, "b": b"c"}), small, worker)

    first.refresh_from_db()
    assert (first.state, second.state, second.reserved_bytes) == ("ready", "ready", 1)


def test_the_base_goes_when_only_that_makes_room(member, dataset, small, worker):
    cache(member, commit_files(member, dataset, {"a": b"a" * 600, "b": b"b" * 200}), small, worker)

    second = cache(member, commit_files(member, dataset, {"a": b"a" * 600, "c": b"c" * 350}), small, worker)

    assert second.state == "ready"
    assert cache_reads.measure_capacity(small).committed_bytes == 950


def test_names_of_other_projects_stay_unsaid(member, small, worker, make_commit, site_admin):
    other = Project.objects.create(name="team-b")
    secret = make_dataset(site_admin, other, "secret")
    row = cache(
        site_admin,
        commit_files(site_admin, secret, {"s": b"s" * 900}),
        small,
        worker,
        holder="j",
        why="read by secret-job",
    )

    with pytest.raises(CacheFull) as raised:
        caches.request_cache(actor=member, commit=make_commit("mine", 500), site=small)

    assert "secret" not in raised.value.message + str(raised.value.details["obstacles"])
    assert raised.value.details["obstacles"] == [
        {"id": row.pk, "label": "a commit of a project that is not yours", "size_bytes": 900, "reason": "in use: jobs"}
    ]


def test_the_dry_run_shows_the_plan_and_does_nothing(member, small, worker, make_commit, time):
    old = cache(member, make_commit("old", 400), small, worker)
    time(NOW + timedelta(hours=1))
    cache(member, make_commit("young", 400), small, worker)

    plan = cache_reads.plan_eviction(member, small, 300)

    assert (plan.victims, plan.freed_bytes, plan.free_bytes) == ((old.pk,), 400, 200)
    assert states() == {"old": "ready", "young": "ready"}


def test_a_new_copy_waits_until_the_space_is_really_free(member, small, worker, make_commit):
    cache(member, make_commit("old", 900), small, worker)
    new = caches.request_cache(actor=member, commit=make_commit("new", 900), site=small)
    evict = [message for message in worker.messages if message[0] == "datasets.evict"]
    worker.messages = [message for message in worker.messages if message[0] != "datasets.evict"]

    worker.work()

    new.refresh_from_db()
    assert (new.state, new.waits_for) == ("queued", "space that is being freed")
    worker.messages = evict
    worker.work()
    new.refresh_from_db()
    assert (new.state, new.waits_for) == ("ready", "")


def test_many_leave_by_as_many_statements_as_one(member, small, worker, make_commit):
    def count_written(commit):
        with CaptureQueriesContext(connection) as queries:
            caches.request_cache(actor=member, commit=commit, site=small)
        worker.work()
        return sum(not query["sql"].startswith("SELECT") for query in queries)

    for name in "abcde":
        cache(member, make_commit(name, 200), small, worker)
    one = count_written(make_commit("new", 200))
    five = count_written(make_commit("large", 1000))

    assert states() == dict.fromkeys([*"abcde", "new"], "gone") | {"large": "ready"}
    assert five == one


def test_what_fits_beside_all_that_is_promised_lists_no_copy(member, site, worker, make_commit):
    cache(member, make_commit("first", 200), site, worker)

    with CaptureQueriesContext(connection) as queries:
        caches.request_cache(actor=member, commit=make_commit("second", 200), site=site)

    assert not [query["sql"] for query in queries if "datasets_cachehold" in query["sql"]]
