"""Twelve sites that are filled at once read the store once; a peer that dies, lies or is slow costs no wrong byte."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import OperationalError, connection

from accounts.permissions import Actor
from core import clock
from datasets.adapters.hydration import StorePacks
from datasets.adapters.sites.folder import kind
from datasets.errors import StagingLost
from datasets.models import CachedCommit
from datasets.selectors import cache_plans
from datasets.services import cache_sites, caches
from datasets.workers import cache_hydration
from tests.factories.datasets import commit_files, make_dataset, make_store, read_tree
from tests.interleaving import happens_after

pytestmark = pytest.mark.django_db(transaction=True)

SITES = 12
FILES = {f"{number % 9}/{number:03}.bin": bytes([number]) * 20_000 for number in range(240)}
SIZE = sum(map(len, FILES.values()))


@dataclass
class Reads:
    """What was read from the store. `before` is called before each read, with how many there were."""

    size_bytes: int = 0
    count: int = 0
    before: object = lambda count: None
    lock: threading.Lock = field(default_factory=threading.Lock)


@pytest.fixture(autouse=True)
def _nothing_runs_out(monkeypatch):
    """However busy the machine is: no lease ends, nobody gives up a peer or a leader, or the wait for SQLite."""
    monkeypatch.setattr(kind, "_TIMEOUT_S", 3600.0)
    if connection.vendor == "sqlite":
        monkeypatch.setitem(connection.settings_dict["OPTIONS"], "timeout", 3600)
    with clock.frozen_at(clock.now()):
        yield


@pytest.fixture
def reads(monkeypatch):
    """Count what is read from packs."""
    reads, read = Reads(), StorePacks.read

    def count_and_read(packs, pack, offset, size):
        with reads.lock:
            reads.count += 1
            number = reads.count
        reads.before(number)
        with reads.lock:
            reads.size_bytes += size
        return read(packs, pack, offset, size)

    monkeypatch.setattr(StorePacks, "read", count_and_read)
    return reads


@pytest.fixture
def copies(tmp_path, member, project, null_queue):
    """Cached commits of one commit that were asked for on all sites, none of them begun."""
    make_store(tmp_path / "store")
    commit = commit_files(member, make_dataset(member, project, "xrays"), FILES)
    system = Actor.system("test")
    names = [f"site-{number:02}" for number in range(SITES)]
    sites = [
        cache_sites.create_site(actor=system, name=name, root=tmp_path / name, capacity_bytes=10**8) for name in names
    ]
    return [caches.request_cache(actor=member, commit=commit, site=site) for site in sites]


def fill(copy) -> None:
    """Work on a copy until it is ready, as its tasks would."""
    pause = threading.Event()
    try:
        while CachedCommit.objects.get(pk=copy.pk).state not in {"ready", "failed"}:
            with contextlib.suppress(OperationalError):  # SQLite was busy for long; the next tick comes
                cache_hydration.hydrate_cached_commit(cached_commit_id=copy.pk)
            pause.wait(0.5)
    finally:
        connection.close()


def fill_at_once(copies) -> list[CachedCommit]:
    with ThreadPoolExecutor(len(copies)) as pool:
        list(pool.map(fill, copies))
    return list(CachedCommit.objects.filter(pk__in=[copy.pk for copy in copies]).order_by("pk"))


def assert_right(copies) -> None:
    assert {copy.state for copy in copies} == {"ready"}
    for copy in copies:
        assert read_tree(Path(copy.path)) == FILES


def test_twelve_sites_filled_at_once_read_the_store_hardly_more_than_once(copies, reads):
    filled = fill_at_once(copies)

    assert_right(filled)
    assert filled[0].bytes_moved == SIZE
    assert [copy.bytes_done for copy in filled] == [SIZE] * SITES
    # A file that appears just as it is given up is read from the store.
    assert reads.size_bytes == sum(copy.bytes_moved for copy in filled) <= 1.05 * SIZE


def test_a_copy_that_gets_ready_while_another_site_looks_for_one_is_read(copies):
    first, second = copies[:2]
    lease = {"lease_token": "a", "lease_expires_at": clock.now() + timedelta(minutes=1)}
    CachedCommit.objects.filter(pk=first.pk).update(state="hydrating", **lease)

    def get_ready():
        CachedCommit.objects.filter(pk=first.pk).update(state="ready", lease_token="", lease_expires_at=None)

    with happens_after("lease_expires_at", get_ready):
        assert cache_plans.find_donor(second.commit, second.site) == first


def test_a_peer_that_fails_half_way_is_replaced_by_the_store(copies, reads):
    first, second = copies[:2]

    def lose_the_first(count):
        if count == 2:
            CachedCommit.objects.filter(pk=first.pk).update(lease_token="", lease_expires_at=None, state="failed")
            raise StagingLost("The first copy is lost.")

    reads.before = lose_the_first
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(fill, [first, second]))

    second.refresh_from_db()
    assert_right([second])
    # What lies in a pack between files that are missing is read with them.
    assert (second.bytes_done, second.bytes_moved >= SIZE - second.bytes_copied > 0) == (SIZE, True)


def test_what_a_peer_has_wrong_comes_from_the_store(copies, reads):
    first, second = copies[:2]
    fill(first)
    first.refresh_from_db()
    for name in ("3/003.bin", "4/004.bin"):
        victim = Path(first.path) / name
        victim.chmod(0o644)
        victim.write_bytes(b"?" * 20_000)
    reads.size_bytes = 0

    fill(second)

    second.refresh_from_db()
    assert_right([second])
    assert (second.bytes_copied, reads.size_bytes >= 40_000) == (SIZE - 40_000, True)


def test_a_peer_that_is_slow_is_waited_for_only_so_long(copies, reads, monkeypatch):
    monkeypatch.setattr(kind, "_TIMEOUT_S", 0.2)
    first, second = copies[:2]
    has_second = threading.Event()
    reads.before = lambda count: has_second.wait(120) if count == 2 else None

    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(fill, first)
        while CachedCommit.objects.get(pk=first.pk).state != "hydrating":
            has_second.wait(0.01)
        pool.submit(fill, second).result()
        has_second.set()
        slow.result()

    assert_right(CachedCommit.objects.filter(pk__in=[first.pk, second.pk]))
    assert CachedCommit.objects.get(pk=second.pk).bytes_moved > 0
