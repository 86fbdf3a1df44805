"""The same commit on two sites: each copy has its own files, and the second is filled from the first."""

import errno
import os
from pathlib import Path

import pytest

from accounts.permissions import Actor
from datasets.selectors import caches as reads
from datasets.services import cache_sites, caches
from datasets.workers import scrubs
from tests.apps.caching.conftest import FILES, SIZE, cache
from tests.factories.datasets import commit_files, read_tree

pytestmark = pytest.mark.django_db(transaction=True)
# Links and empty files are made anew; all else is read from the other site.
COPIED = SIZE - len("a/one.png")


@pytest.fixture
def second_site(db, tmp_path):
    return cache_sites.create_site(
        actor=Actor.system("test"), name="second", root=tmp_path / "second", capacity_bytes=10_000_000
    )


def test_a_site_is_filled_from_another_one_that_has_the_commit(member, commit, ready, second_site, worker):
    copy = cache(member, commit, second_site, worker)

    assert (copy.state, copy.bytes_copied, copy.bytes_moved, copy.donor_id) == ("ready", COPIED, 0, ready.pk)
    assert (copy.bytes_shared, copy.reserved_bytes) == (0, copy.bytes_total)
    assert read_tree(Path(copy.path)) == {name: v[0] if isinstance(v, tuple) else v for name, v in FILES.items()}
    assert "from the site local" in copy.events.get(state="hydrating").message


def test_the_copies_have_no_file_in_common(member, commit, ready, second_site, worker):
    copy = cache(member, commit, second_site, worker)
    caches.uncache(actor=member, cached_commit_id=ready.pk)
    worker.work()

    copy.refresh_from_db()
    assert {p.stat().st_nlink for p in Path(copy.path).rglob("*.png")} == {1}
    assert reads.measure_capacity(second_site).committed_bytes == copy.bytes_total
    assert reads.measure_capacity(ready.site).committed_bytes == 0
    assert (Path(copy.path) / "a/one.png").read_bytes() == FILES["a/one.png"]


def test_a_file_that_is_damaged_on_the_other_site_comes_from_the_store(member, commit, ready, second_site, worker):
    damaged = Path(ready.path) / "a" / "two.png"
    damaged.chmod(0o644)
    damaged.write_bytes(b"x" * 2000)
    (Path(ready.path) / "b").chmod(0o755)
    (Path(ready.path) / "b" / "run.sh").unlink()

    copy = cache(member, commit, second_site, worker)

    assert copy.bytes_copied == COPIED - 2000 - len(FILES["b/run.sh"][0])
    assert copy.bytes_moved > 0
    assert (Path(copy.path) / "a" / "two.png").read_bytes() == FILES["a/two.png"]
    assert (Path(copy.path) / "b" / "run.sh").read_bytes() == FILES["b/run.sh"][0]
    ready.refresh_from_db()
    assert ready.scrub_requested_at is not None


@pytest.mark.parametrize("flags", [None, os.O_WRONLY])
def test_a_file_that_the_other_site_cannot_read_comes_from_the_store(
    *, member, commit, ready, second_site, worker, monkeypatch, flags
):
    broken, real_open = os.fsencode(Path(ready.path).resolve() / "a" / "two.png"), os.open

    def open_(path, *given, **more):
        if not isinstance(path, bytes) or os.path.realpath(path) != broken:
            return real_open(path, *given, **more)
        if flags is None:
            raise OSError(errno.EIO, "Input/output error", path)
        return real_open(path, flags)  # it is opened, and reading fails

    monkeypatch.setattr(os, "open", open_)
    copy = cache(member, commit, second_site, worker)
    ready.refresh_from_db()

    assert (copy.state, copy.bytes_copied) == ("ready", COPIED - 2000)
    assert (Path(copy.path) / "a" / "two.png").read_bytes() == FILES["a/two.png"]
    assert ready.scrub_requested_at is not None


def test_damage_on_one_site_is_healed_there_alone(member, commit, ready, second_site, worker):
    copy = cache(member, commit, second_site, worker)
    damaged = Path(copy.path) / "a" / "one.png"
    damaged.chmod(0o644)
    damaged.write_bytes(b"x" * 1000)

    caches.scrub(actor=member, cached_commit_id=copy.pk)
    scrubs.scrub_cached_commit(cached_commit_id=copy.pk)

    assert damaged.read_bytes() == FILES["a/one.png"]
    assert copy.events.filter(kind="healed").count() == 1
    assert ready.events.filter(kind__in=("damaged", "healed")).count() == 0


def test_a_base_on_the_same_site_goes_before_another_site(member, commit, ready, second_site, worker):
    near = cache(member, commit, second_site, worker)
    newer = commit_files(member, ready.dataset, {**FILES, "new": b"n" * 500})
    cache(member, newer, ready.site, worker)

    copy = cache(member, newer, second_site, worker)

    assert (copy.base_id, copy.bytes_copied, copy.bytes_moved) == (near.pk, 500, 0)
