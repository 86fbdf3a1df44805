"""The contract of `CacheSiteDriver`: every kind of cache site passes it.

A kind's test module subclasses `CacheSiteContract` and offers two fixtures, `site` and `other_site`, rows of its kind.
Rows stand for what the worker would keep: it makes one before it asks a driver for anything.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

import pytest
from django.db.models import F

from core import clock
from datasets.adapters.hydration import hydrate
from datasets.adapters.opening import open_dataset_store
from datasets.adapters.sites import registry
from datasets.engine.cache_ports import CloneBase, CopyProgress, CopyRequest, Donor, Fetched
from datasets.engine.cache_states import CacheState
from datasets.errors import RemovalHeldUp
from datasets.models import CachedCommit, CacheSite, Commit
from datasets.selectors import cache_plans
from datasets.selectors.trees import TreeReader
from tests.factories.datasets import commit_files, make_dataset, make_store

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
# Large enough to lie in blocks of their own: some file systems keep tiny files in their inodes, which nobody can share.
FIRST = {"a/one": b"1" * 9000, "a/two": b"2" * 9000}
SECOND = {"a/one": b"1" * 9000, "new": b"3" * 5000}
SIZE, NEW_SIZE = 18_000, 14_000
REMOVAL_LIMIT_S = 600
"""One call waits for a site for some seconds only."""


class Lease:
    """A lease that nobody else wants. It remembers what was reported."""

    is_lost = False

    def __init__(self) -> None:
        self.reports: list[CopyProgress] = []

    def confirm(self) -> None:
        """It is ours."""

    def report(self, progress: CopyProgress) -> None:
        self.reports.append(progress)


class CacheSiteContract:
    """What the workers rely on, whatever the kind of the site."""

    @pytest.fixture(autouse=True)
    def time(self):
        with clock.frozen_at(START) as move:
            yield move

    @pytest.fixture
    def dataset(self, db, tmp_path, member, project):
        make_store(tmp_path / "store")
        return make_dataset(member, project, "xrays")

    @pytest.fixture
    def commit(self, dataset, member) -> Commit:
        return commit_files(member, dataset, FIRST)

    def test_a_copy_is_listed_at_its_location_only_once_it_is_ready(self, site, commit, time):
        row, lease = new_row(site, commit), Lease()
        driver = registry.open_site(site)
        assert driver.list().get(row.pk, "") == ""

        progress = bring(row, lease, time)

        assert driver.list()[row.pk] == row.location
        assert progress == replace(
            CopyProgress(2, SIZE, bytes_moved=progress.bytes_moved, is_ready=True), rate_bytes_s=progress.rate_bytes_s
        )
        assert progress.bytes_moved >= SIZE
        done = [report.bytes_done for report in lease.reports]
        assert done == sorted(done)
        assert done[-1] == SIZE

    def test_ensuring_a_ready_copy_again_changes_nothing(self, site, commit, time):
        row = new_row(site, commit)
        bring(row, Lease(), time)
        before = registry.open_site(site).list()

        again = registry.open_site(site).ensure(request_of(row), Lease())

        assert again.is_ready
        assert registry.open_site(site).list() == before

    def test_a_clone_shares_what_its_base_has(self, site, commit, dataset, member, time):
        base = new_row(site, commit)
        bring(base, Lease(), time)

        clone = new_row(site, commit_files(member, dataset, SECOND))
        progress = bring(clone, Lease(), time)

        assert (progress.bytes_shared, progress.bytes_done) == (9000, NEW_SIZE)
        assert 5000 <= progress.bytes_moved < SIZE

    def test_a_copy_is_filled_from_another_site_that_has_the_commit(self, site, other_site, commit, time):
        bring(new_row(other_site, commit), Lease(), time)

        progress = bring(new_row(site, commit), Lease(), time)

        assert (progress.bytes_copied, progress.bytes_moved, progress.is_ready) == (SIZE, 0, True)

    def test_a_deletion_frees_all_of_a_copy_that_shares_nothing(self, site, commit, time):
        row = new_row(site, commit)
        bring(row, Lease(), time)

        assert delete(row) == [SIZE]

        assert row.pk not in registry.open_site(site).list()

    def test_a_deletion_frees_only_what_no_clone_shares(self, site, commit, dataset, member, time):
        base = new_row(site, commit)
        bring(base, Lease(), time)
        clone = new_row(site, commit_files(member, dataset, SECOND))
        bring(clone, Lease(), time)

        assert delete(base) == [9000]

        assert registry.open_site(site).list() == {clone.pk: clone.location}
        assert delete(clone) == [NEW_SIZE]

    def test_a_copy_that_is_not_ready_can_be_deleted(self, site, commit):
        row = new_row(site, commit)

        delete(row)

        assert registry.open_site(site).list() == {}

    def test_deleting_again_is_no_error(self, site, commit, time):
        row = new_row(site, commit)
        bring(row, Lease(), time)
        delete(row)

        assert delete(row) in ([], [0])

    def test_the_site_knows_its_size_and_its_time(self, site):
        driver = registry.open_site(site)
        usage = driver.usage()

        assert 0 < usage.free_bytes <= usage.total_bytes
        assert 0 < driver.now_ns() <= driver.now_ns()


def new_row(site: CacheSite, commit: Commit) -> CachedCommit:
    """Keep the row of a copy whose filling begins now."""
    return CachedCommit.objects.create(
        site=site,
        dataset=commit.dataset,
        commit=commit,
        state=CacheState.HYDRATING,
        location=f"team-a/xrays/{commit.pk}",
        requested_by="test",
        files_total=commit.files,
        bytes_total=commit.size_bytes,
        reserved_bytes=commit.size_bytes,
        started_at=clock.now(),
    )


def request_of(row: CachedCommit) -> CopyRequest:
    """Ask for a copy as the worker does: with the best plan and, where another site has the commit, its donor."""
    reader = TreeReader(row.dataset)
    plan = cache_plans.plan_hydration(row.commit, row.site)
    base = CachedCommit.objects.filter(pk=plan.base_id).first() if plan.base_id != row.pk else None
    donor = cache_plans.find_donor(row.commit, row.site)

    def fetch(entries: Iterator, folder: Path, on_progress) -> None:
        store = open_dataset_store(row.dataset)
        hydrate(store, entries, folder, keep_existing=True, on_progress=lambda done: on_progress(as_fetched(done)))

    return CopyRequest(
        id=row.pk,
        token="t1",
        location=row.location,
        files=row.files_total,
        size_bytes=row.bytes_total,
        bytes_shared=plan.shared_bytes if base else 0,
        started_at=row.started_at,
        list_entries=lambda: reader.list_entries(row.commit.root),
        fetch=fetch,
        base=CloneBase(base.location, plan.find_in_base) if base else None,
        donor=Donor(registry.open_site(donor.site), donor.pk, donor.location) if donor else None,
    )


def remove(row: CachedCommit, settled: list[int]) -> str:
    """Go on with a removal as one worker does, and return what holds it up; empty: the copy is gone."""
    driver = registry.open_site(row.site)
    settle = None if settled else settled.append
    try:
        assert driver.delete(row.pk, location=row.location, token="t2", settle=settle, keep_going=lambda: True)
    except RemovalHeldUp as error:
        return error.message
    return ""


def as_fetched(done) -> Fetched:
    return Fetched(done.files, done.size_bytes, done.bytes_moved)


def bring(row: CachedCommit, lease: Lease, time) -> CopyProgress:
    """Ask again, second by second, until the copy is ready, and note that it is."""
    request = request_of(row)
    for second in range(100):
        time(row.started_at + timedelta(seconds=second))
        progress = registry.open_site(row.site).ensure(request, lease)
        if progress.is_ready:
            row.state = CacheState.READY
            if request.base is not None:
                row.base = CachedCommit.objects.get(site=row.site, location=request.base.location)
            row.bytes_done, row.bytes_shared = progress.bytes_done, progress.bytes_shared
            row.reserved_bytes = row.bytes_total - progress.bytes_shared
            row.save()
            return progress
    raise AssertionError("It never gets ready.")


def delete(row: CachedCommit) -> list[int]:
    """Delete a copy as workers do, charge what stays to another, and return what was settled."""
    settled: list[int] = []
    row.refresh_from_db()
    deadline = monotonic() + REMOVAL_LIMIT_S
    while held_by := remove(row, settled):
        assert monotonic() < deadline, held_by
    others = CachedCommit.objects.filter(site=row.site, state=CacheState.READY).exclude(pk=row.pk)
    others.update(reserved_bytes=F("reserved_bytes") + row.reserved_bytes - sum(settled))
    CachedCommit.objects.filter(pk=row.pk).update(state=CacheState.GONE, reserved_bytes=0)
    return settled
