"""A second commit costs its change: the rest is shared, and no copy's end or damage hurts another."""

from pathlib import Path

import pytest

from datasets.adapters.sites import registry
from datasets.adapters.sites.folder.copy_folder import PosixFolder
from datasets.engine.cache_ports import Sharing
from datasets.errors import CacheInUse
from datasets.models import CachedCommit
from datasets.selectors import caches as cache_reads
from datasets.services import caches
from datasets.workers import evictions
from tests.apps.caching.conftest import cache
from tests.factories.datasets import commit_files, read_tree
from tests.interleaving import happens_after

pytestmark = pytest.mark.django_db(transaction=True)

FIRST = {f"c{n % 3}/{n:03}.png": bytes([n]) * 10_000 for n in range(60)}
SECOND = {k: v for k, v in FIRST.items() if k not in {"c0/000.png", "c1/001.png"}}
SECOND |= {"c1/001.png": b"edited" * 100, "new.png": b"n" * 500}


def inode(row, name):
    return Path(row.path, name).stat().st_ino


@pytest.mark.usefixtures("hard_links")
def test_only_the_change_is_read_from_the_store(member, dataset, site, worker):
    first = cache(member, commit_files(member, dataset, FIRST), site, worker)

    second = cache(member, commit_files(member, dataset, SECOND), site, worker)

    assert read_tree(Path(second.path)) == SECOND
    assert second.base_id == first.pk
    assert second.bytes_shared == 58 * 10_000
    assert second.reserved_bytes == 1_100
    assert second.bytes_moved == 1_100
    assert inode(second, "c2/002.png") == inode(first, "c2/002.png")
    assert inode(second, "c1/001.png") != inode(first, "c1/001.png")


def test_a_shared_file_counts_once_in_the_capacity(member, dataset, site, worker):
    cache(member, commit_files(member, dataset, FIRST), site, worker)
    cache(member, commit_files(member, dataset, SECOND), site, worker)

    capacity = cache_reads.measure_capacity(site)

    assert (capacity.committed_bytes, capacity.used_bytes) == (601_100, 601_100)
    assert capacity.free_bytes == 10_000_000 - 601_100


def test_a_renamed_folder_is_shared(member, dataset, site, worker):
    cache(member, commit_files(member, dataset, FIRST), site, worker)

    renamed = cache(member, commit_files(member, dataset, {f"all/{k}": v for k, v in FIRST.items()}), site, worker)

    assert (renamed.bytes_moved, renamed.bytes_shared) == (0, 600_000)


def test_an_executable_bit_alone_makes_a_file_of_its_own(member, dataset, site, worker):
    cache(member, commit_files(member, dataset, {"run.sh": b"echo", "x": b"1" * 100}), site, worker)

    second = cache(member, commit_files(member, dataset, {"run.sh": (b"echo", 0o755), "x": b"1" * 100}), site, worker)

    assert second.bytes_shared == 100
    assert Path(second.path, "run.sh").stat().st_mode & 0o777 == 0o555


@pytest.mark.parametrize("order", ["base first", "heir first"])
def test_the_end_of_one_copy_leaves_the_other_whole_and_the_sums_right(member, dataset, site, worker, order):
    first = cache(member, commit_files(member, dataset, FIRST), site, worker)
    second = cache(member, commit_files(member, dataset, SECOND), site, worker)
    gone, stays, files = (first, second, SECOND) if order == "base first" else (second, first, FIRST)

    caches.uncache(actor=member, cached_commit_id=gone.pk)
    worker.work()

    gone.refresh_from_db()
    stays.refresh_from_db()
    assert (gone.state, gone.reserved_bytes) == ("gone", 0)
    assert read_tree(Path(stays.path)) == files
    assert stays.reserved_bytes == sum(map(len, files.values()))
    assert cache_reads.measure_capacity(site).used_bytes == stays.reserved_bytes


def test_what_three_share_stays_charged_until_the_last_has_gone(member, dataset, site, worker):
    versions = [FIRST | {"new.png": b"n" * number} for number in (1, 2, 3)]
    rows = [cache(member, commit_files(member, dataset, files), site, worker) for files in versions]
    for row in rows:
        caches.uncache(actor=member, cached_commit_id=row.pk)
    # The second one was weighed, as it shared files with both others, and is about to be gone.
    CachedCommit.objects.filter(pk=rows[1].pk).update(is_weighed=True)

    evictions.remove_copy(cached_commit_id=rows[0].pk)
    evictions.remove_copy(cached_commit_id=rows[1].pk)

    rows[2].refresh_from_db()
    assert rows[2].reserved_bytes == sum(map(len, versions[2].values()))


def test_both_ends_at_once_free_everything(member, dataset, site, worker):
    rows = [cache(member, commit_files(member, dataset, files), site, worker) for files in (FIRST, SECOND)]

    for row in rows:
        caches.uncache(actor=member, cached_commit_id=row.pk)
    worker.work()

    assert cache_reads.measure_capacity(site).committed_bytes == 0
    assert sorted(p.name for p in Path(site.root).rglob("*") if p.is_file()) == [".clock", ".nearline-site"]


def test_a_base_file_that_was_written_to_is_not_shared(member, dataset, site, worker):
    first = cache(member, commit_files(member, dataset, FIRST), site, worker)
    victim = Path(first.path, "c2/002.png")
    victim.chmod(0o644)
    victim.write_bytes(b"\xff" * 10_000)

    second = cache(member, commit_files(member, dataset, SECOND), site, worker)

    assert read_tree(Path(second.path)) == SECOND
    assert second.bytes_shared == 57 * 10_000


def test_a_base_that_loses_files_while_it_is_used_costs_a_download_not_the_copy(member, dataset, site, worker):
    first = cache(member, commit_files(member, dataset, FIRST), site, worker)
    Path(first.path, "c2").chmod(0o755)
    for path in Path(first.path, "c2").iterdir():
        path.unlink()

    second = cache(member, commit_files(member, dataset, SECOND), site, worker)

    assert read_tree(Path(second.path)) == SECOND
    assert second.reserved_bytes == 201_100


def test_a_base_that_leaves_while_it_is_chosen_is_none(member, dataset, site, worker):
    first = cache(member, commit_files(member, dataset, FIRST), site, worker)
    second = caches.request_cache(actor=member, commit=commit_files(member, dataset, SECOND), site=site)

    # Right after its base was chosen, as it looks for a copy of its own commit elsewhere.
    with happens_after('< (SELECT U0."id"', lambda: caches.uncache(actor=member, cached_commit_id=first.pk)):
        worker.work()

    second.refresh_from_db()
    assert (second.state, second.base_id, second.bytes_shared) == ("ready", None, 0)


def test_a_base_stays_until_what_is_made_from_it_is_ready(member, dataset, site, worker):
    first = cache(member, commit_files(member, dataset, FIRST), site, worker)
    second = caches.request_cache(actor=member, commit=commit_files(member, dataset, SECOND), site=site)
    refused = []

    def clear():
        with pytest.raises(CacheInUse) as raised:
            caches.uncache(actor=member, cached_commit_id=first.pk)
        refused.append(raised.value.message)

    # Right after the space is promised for what differs.
    with happens_after('"share_reports" = ', clear):
        worker.work()

    second.refresh_from_db()
    assert (second.state, second.base_id) == ("ready", first.pk)
    label = f"{dataset.project.name}/xrays@{second.commit_id[:8]}"
    assert [message.partition(" is in use: ")[2] for message in refused] == [
        f"shared with {label}, which is being cached."
    ]
    assert caches.uncache(actor=member, cached_commit_id=first.pk).state == "evicting"


def test_where_nothing_can_be_shared_everything_is_read(member, dataset, site, worker, monkeypatch):
    monkeypatch.setattr(PosixFolder, "sharing", Sharing.NONE)
    cache(member, commit_files(member, dataset, FIRST), site, worker)

    second = cache(member, commit_files(member, dataset, SECOND), site, worker)

    assert registry.open_site(site).sharing is Sharing.NONE
    assert (second.bytes_shared, second.base_id, read_tree(Path(second.path))) == (0, None, SECOND)
    assert second.reserved_bytes == sum(map(len, SECOND.values()))


def test_the_nearest_of_several_copies_is_the_base(member, dataset, site, worker):
    far = cache(member, commit_files(member, dataset, {"x": b"1" * 1000, "y": b"2" * 10}), site, worker)
    near = cache(member, commit_files(member, dataset, FIRST), site, worker)

    third = cache(member, commit_files(member, dataset, {**FIRST, "x": b"1" * 1000}), site, worker)

    assert third.base_id == near.pk != far.pk


def test_two_commits_of_a_dataset_asked_for_at_once_still_share(member, dataset, site, worker):
    first = caches.request_cache(actor=member, commit=commit_files(member, dataset, FIRST), site=site)
    second = caches.request_cache(actor=member, commit=commit_files(member, dataset, SECOND), site=site)

    worker.work()

    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, second.state, second.bytes_shared) == ("ready", "ready", 580_000)


@pytest.mark.usefixtures("hard_links")
def test_the_end_of_a_copy_does_not_make_the_shared_files_look_touched(member, dataset, site, worker):
    """Removing one link changes the time of the file, which the next scrub would take for a change by somebody."""
    gone = cache(member, commit_files(member, dataset, FIRST), site, worker)
    stays = cache(member, commit_files(member, dataset, SECOND), site, worker)

    caches.uncache(actor=member, cached_commit_id=gone.pk)
    worker.work()

    stays.refresh_from_db()
    changed_ns = max(path.lstat().st_ctime_ns for path in Path(stays.path).rglob("*.png"))
    assert cache_reads.find_quiet_since(stays) >= changed_ns
