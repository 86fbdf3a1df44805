"""Copies for what may be read next, on a folder: they begin after those that are needed now, and stop for them."""

from datetime import timedelta

import pytest

from core import clock
from datasets.models import CachedCommit
from datasets.services import caches
from datasets.workers import cache_hydration
from tests.factories.datasets import commit_files, make_dataset

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ahead(member, commit, site, worker) -> CachedCommit:
    return caches.request_cache(actor=member, commit=commit, site=site, holder="next", why="a step", is_ahead=True)


@pytest.fixture
def needed(member, project, ahead, site) -> CachedCommit:
    """Asked for after the other one, by a person."""
    commit = commit_files(member, make_dataset(member, project, "urgent"), {"a": b"1" * 1000})
    return caches.request_cache(actor=member, commit=commit, site=site)


def hydrate(*rows: CachedCommit) -> list[tuple[str, str]]:
    for row in rows:
        cache_hydration.hydrate_cached_commit(cached_commit_id=row.pk)
        row.refresh_from_db()
    return [(row.state, row.waits_for) for row in rows]


def test_it_begins_after_what_is_needed_now(ahead, needed):
    waits = ("queued", "the copies that are needed on local now")

    assert hydrate(ahead, needed) == [waits, ("ready", "")]
    assert hydrate(ahead) == [("ready", "")]


def test_it_stops_for_what_is_needed_now_and_goes_on_then(ahead, needed):
    alive = {"lease_token": "t", "lease_expires_at": clock.now() + timedelta(minutes=5), "started_at": clock.now()}
    CachedCommit.objects.filter(pk=ahead.pk).update(state="hydrating", **alive)

    assert hydrate(needed) == [("ready", "")]
    ahead.refresh_from_db()
    assert (ahead.state, ahead.lease_token, ahead.waits_for) == (
        "queued",
        "",
        "the copies that are needed on local now",
    )
    assert ahead.paused_at is not None
    assert hydrate(ahead) == [("ready", "")]
    assert ahead.paused_at is None


@pytest.mark.usefixtures("needed")
def test_once_somebody_needs_it_now_it_waits_for_nobody(member, commit, site, ahead, worker):
    hydrate(ahead)

    caches.request_cache(actor=member, commit=commit, site=site, holder="attempt", why="a step")
    worker.work()

    ahead.refresh_from_db()
    assert ahead.state == "ready"


def test_who_asked_for_it_without_a_hold_keeps_it_when_nobody_reads_it_next(member, commit, site, ahead):
    caches.request_cache(actor=member, commit=commit, site=site)

    caches.release_holds(actor=member, holder="next")

    ahead.refresh_from_db()
    assert ahead.state == "queued"
