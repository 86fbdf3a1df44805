"""The heartbeat writes progress and keeps the lease, until the row belongs to another."""

import threading
import time
from datetime import timedelta

import pytest
from django.db import InterfaceError

from core import clock
from datasets.engine.cache_states import WORKING
from datasets.errors import StagingLost
from datasets.models import CachedCommit
from datasets.services import caches
from datasets.workers import cache_hydration, cache_leases
from datasets.workers.cache_leases import Heartbeat

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def claimed(member, commit, site, worker):
    return cache_hydration._claim(caches.request_cache(actor=member, commit=commit, site=site).pk)


def wait_until(condition, *, deadline_s=60):
    """Look again every few milliseconds."""
    until, pause = time.monotonic() + deadline_s, threading.Event()
    while not condition():
        assert time.monotonic() < until, "It did not happen in time."
        pause.wait(0.02)


def test_progress_is_written_by_itself_with_a_rate_and_a_longer_lease(claimed):
    before = CachedCommit.objects.get(pk=claimed.pk)
    with Heartbeat(claimed, states=WORKING) as heartbeat:
        heartbeat.report(files_done=2, bytes_done=3000, bytes_shared=0, bytes_moved=3000)
        wait_until(lambda: CachedCommit.objects.get(pk=claimed.pk).bytes_done == 3000)

    after = CachedCommit.objects.get(pk=claimed.pk)
    assert (after.files_done, after.attempts) == (2, 0)
    assert after.lease_expires_at > before.lease_expires_at
    assert after.rate_bytes_s > 0


def test_once_another_has_the_lease_nothing_is_written_and_the_work_must_stop(claimed):
    with Heartbeat(claimed, states=WORKING) as heartbeat:
        CachedCommit.objects.filter(pk=claimed.pk).update(lease_token="another")
        heartbeat.report(files_done=2, bytes_done=3000, bytes_shared=0, bytes_moved=3000)
        wait_until(lambda: heartbeat.is_lost)

        with pytest.raises(StagingLost):
            heartbeat.confirm()

    assert CachedCommit.objects.get(pk=claimed.pk).bytes_done == 0


def test_a_connection_that_breaks_costs_one_beat(claimed, monkeypatch):
    monkeypatch.setattr(cache_leases, "LEASE", timedelta(hours=1))  # however long this machine keeps the thread waiting

    class BreaksOnce:
        def __init__(self, rows) -> None:
            self.rows, self.breaks = rows, 1

        def update(self, **changes):
            if self.breaks:
                self.breaks -= 1
                raise InterfaceError("connection already closed")
            return self.rows.update(**changes)

    heartbeat = Heartbeat(claimed, states=WORKING)
    heartbeat._rows = BreaksOnce(heartbeat._rows)
    with heartbeat:
        heartbeat.report(files_done=2, bytes_done=3000, bytes_shared=0, bytes_moved=3000)
        wait_until(lambda: CachedCommit.objects.get(pk=claimed.pk).bytes_done == 3000)

        assert not heartbeat.is_lost


def test_a_row_that_is_leaving_stops_the_work(claimed, member):
    with Heartbeat(claimed, states=WORKING) as heartbeat:
        caches.uncache(actor=member, cached_commit_id=claimed.pk)

        with pytest.raises(StagingLost):
            heartbeat.confirm()


def test_a_fresh_lease_outlives_a_slow_beat(claimed):
    assert claimed.lease_expires_at - clock.now() > timedelta(seconds=10)
