"""What a job did to a copy is found, named in every copy that shares it, and healed from the store by new files."""

import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from core import clock, isolation
from datasets.models import CachedCommit
from datasets.selectors import failures
from datasets.services import caches
from datasets.workers import scrubs
from tests.apps.caching.conftest import cache
from tests.factories.datasets import commit_files, read_tree
from tests.interleaving import happens_after

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hard_links")]

FIRST = {f"c{n % 3}/{n:03}.png": bytes([n]) * 100 for n in range(30)}
SECOND = {**FIRST, "c1/001.png": b"edited"}


@pytest.fixture
def pair(member, dataset, site, worker):
    first = cache(member, commit_files(member, dataset, FIRST), site, worker)
    return first, cache(member, commit_files(member, dataset, SECOND), site, worker)


def write_through(path, data, *, hide=False):
    before = path.stat()
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.write(data)
    if hide:
        path.chmod(0o444)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def events(row, kind):
    return list(row.events.filter(kind=kind).order_by("pk"))


def scrub(actor, row, worker):
    caches.scrub(actor=actor, cached_commit_id=row.pk)
    worker.work()
    row.refresh_from_db()


def is_whole(row, files):
    return read_tree(Path(row.path)) == files


@pytest.mark.parametrize("hide", [False, True])
def test_a_write_into_a_shared_file_is_named_and_healed_in_every_copy(pair, member, worker, hide):
    first, second = pair
    damaged = Path(first.path, "c2/002.png")
    write_through(damaged, b"poison", hide=hide)
    assert not is_whole(second, SECOND)
    inode = damaged.stat().st_ino

    scrub(member, second, worker)

    assert is_whole(first, FIRST)
    assert is_whole(second, SECOND)
    for row, other in ((first, second), (second, first)):
        [damage] = events(row, "damaged")
        assert damage.facts["files"] == [
            {"path": "c2/002.png", "kind": "changed", "shared_with": [f"team-a/xrays@{other.commit_id[:8]}"]}
        ]
        assert len(events(row, "healed")) == 1
    healed = Path(first.path, "c2/002.png").stat()
    assert (healed.st_ino != inode, healed.st_mode & 0o777) == (True, 0o444)
    assert healed.st_ino == Path(second.path, "c2/002.png").stat().st_ino
    assert Path(first.path, "c2").stat().st_mode & 0o777 == 0o555


def test_healing_never_writes_into_the_damaged_file(pair, member, worker):
    first, _ = pair
    damaged = Path(first.path, "c2/002.png")
    write_through(damaged, b"poison")
    with damaged.open("rb") as reader:
        scrub(member, first, worker)

        assert reader.read().startswith(b"poison")
    assert is_whole(first, FIRST)


def test_what_a_job_removed_is_brought_back_and_what_it_added_is_taken_out(pair, member, worker):
    first, second = pair
    folder = Path(first.path, "c1")
    folder.chmod(0o755)
    (folder / "001.png").unlink()
    (folder / "output.txt").write_text("not here")
    (folder / "deep").mkdir()
    (folder / "deep" / "er.txt").write_text("nor here")
    (folder / "004.png").unlink()
    (folder / "004.png").mkdir()

    scrub(member, first, worker)

    assert is_whole(first, FIRST)
    assert is_whole(second, SECOND)
    assert folder.stat().st_mode & 0o777 == 0o555
    assert {(f["path"], f["kind"]) for f in events(first, "damaged")[0].facts["files"]} == {
        ("c1/001.png", "missing"), ("c1/004.png", "changed"), ("c1/output.txt", "stray"), ("c1/deep", "stray")
    }  # fmt: skip
    assert not list(Path(second.site.root, ".trash").iterdir())


def test_a_whole_folder_that_went_missing_comes_back(pair, member, worker):
    first, _ = pair
    top = Path(first.path)
    top.chmod(0o755)
    (top / "c0").rename(top.parent.parent.parent / "elsewhere")

    scrub(member, first, worker)

    assert is_whole(first, FIRST)


def test_a_copy_that_was_removed_as_a_whole_comes_back_complete(pair, member, worker):
    first, second = pair
    site = Path(first.site.root)
    Path(first.path).parent.chmod(0o755)
    Path(first.path).rename(site.parent / "elsewhere")

    scrub(member, first, worker)

    assert (is_whole(first, FIRST), is_whole(second, SECOND)) == (True, True)
    assert Path(first.path).stat().st_mode & 0o777 == 0o555
    assert len(events(first, "healed")) == 1
    assert [path.name for path in (site / ".staging").iterdir()] == [".clock"]
    scrub(member, first, worker)
    assert len(events(first, "damaged")) == 1


def test_what_was_touched_but_is_right_is_no_damage_and_looks_untouched_again(pair, member, worker):
    first, _ = pair
    path = Path(first.path, "c2/002.png")
    path.chmod(0o644)
    os.utime(path)

    scrub(member, first, worker)

    assert events(first, "damaged") == []
    assert path.stat().st_mode & 0o777 == 0o444


def test_the_daily_glance_finds_a_plain_write_and_a_hidden_one(pair, worker):
    first, second = pair
    write_through(Path(first.path, "c2/002.png"), b"plain")
    write_through(Path(first.path, "c2/005.png"), b"hidden", hide=True)
    with clock.frozen_at(datetime.now(UTC) + timedelta(days=1, minutes=1)):
        assert scrubs.enqueue_due_scrubs() == 2
        worker.work()
        assert scrubs.enqueue_due_scrubs() == 0

    assert is_whole(first, FIRST)
    assert is_whole(second, SECOND)


def test_in_thirty_days_every_file_is_read_once(ready):
    class File:
        content_id = b""

    for first_byte in (0, 29, 30, 255):
        File.content_id = bytes([first_byte]) + b"x"
        reads = 0
        for day in range(30):
            with clock.frozen_at(datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=day)):
                reads += scrubs._choose_files(ready)(File)
        assert reads == 1


def test_damage_that_cannot_be_healed_is_said_and_kept_in_sight(pair, member, worker, dataset):
    first, _ = pair
    write_through(Path(first.path, "c2/002.png"), b"poison")
    for pack in Path(dataset.store.location).rglob("packs/*/*"):
        pack.unlink()

    caches.scrub(actor=member, cached_commit_id=first.pk)
    worker.work()

    first.refresh_from_db()
    assert first.error_code == "datasets.blob_missing"
    assert len(events(first, "not_healed")) == 1
    (failure,) = isolation.find([failures.SCRUB])
    assert failure.error.startswith("The store has no object")

    scrubs.scrub_each([first.pk])
    assert len(events(first, "not_healed")) == 1  # it is left alone until its next try

    caches.scrub(actor=member, cached_commit_id=first.pk)
    scrubs.scrub_each([first.pk])
    assert len(events(first, "not_healed")) == 2


def test_a_scrub_leaves_an_intact_copy_as_it_is(ready, member, worker):
    before = {p: p.lstat().st_ino for p in Path(ready.path).rglob("*")}

    scrub(member, ready, worker)

    assert {p: p.lstat().st_ino for p in Path(ready.path).rglob("*")} == before
    assert CachedCommit.objects.get(pk=ready.pk).scrub_requested_at is None
    assert events(ready, "damaged") == []


def test_a_scrub_that_is_asked_for_as_the_daily_one_begins_comes_after_it(ready, member):
    CachedCommit.objects.filter(pk=ready.pk).update(scrubbed_at=None)

    with happens_after("SELECT", lambda: caches.scrub(actor=member, cached_commit_id=ready.pk)):
        scrubs.scrub_cached_commit(cached_commit_id=ready.pk)

    assert CachedCommit.objects.get(pk=ready.pk).scrub_requested_at is not None


def test_of_a_hundred_flipped_bits_every_one_is_named_and_healed(member, dataset, site, worker):
    dice = random.Random(7)
    files = {f"part-{number % 7}/{number:03}": dice.randbytes(dice.randint(1, 3000)) for number in range(100)}
    row = cache(member, commit_files(member, dataset, files), site, worker)
    for path, content in files.items():
        at = dice.randrange(len(content))
        flipped = content[:at] + bytes([content[at] ^ 1 << dice.randrange(8)]) + content[at + 1 :]
        write_through(Path(row.path) / path, flipped, hide=True)

    scrub(member, row, worker)

    (damaged,) = events(row, "damaged")
    assert {file["path"] for file in damaged.facts["files"]} == set(files)
    assert len(events(row, "healed")) == 1
    assert is_whole(row, files)
