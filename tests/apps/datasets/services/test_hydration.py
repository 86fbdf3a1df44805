"""Filling a folder: exact, verified, never half visible."""

import os
import random
import threading

import pytest

from datasets.adapters.hydration import hydrate
from datasets.adapters.memory import MemoryStore
from datasets.engine.layout import pack_key
from datasets.errors import ContentCorrupt, HydrationStopped, StoreUnreachable, TargetUnwritable
from nearline.content.retry import Failure, RetryPolicy
from nearline.hydrate.ports import HydrationProgress
from tests.factories.datasets import MTIME_NS, PackedTree, read_tree

FILES = {
    "a.txt": b"one",
    "folder/b.txt": b"two",
    "folder/deep/run.sh": (b"#!/bin/sh\n", 0o755),
    "folder/empty": b"",
    "folder/same": b"one",
    "link": "folder/b.txt",
    "na\nme \udcff+": b"odd",
}
CONTENT = {name: value[0] if isinstance(value, tuple) else value for name, value in FILES.items()}


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def tree(store):
    packed = PackedTree(FILES)
    packed.put_into(store)
    return packed


def test_a_tree_comes_out_as_it_went_in(store, tree, tmp_path):
    done = hydrate(store, tree.entries, tmp_path / "out")

    assert read_tree(tmp_path / "out") == CONTENT
    assert done.files == 7


def test_modes_are_read_only_and_times_are_kept(store, tree, tmp_path):
    hydrate(store, tree.entries, tmp_path / "out")

    assert (tmp_path / "out/a.txt").stat().st_mode & 0o777 == 0o444
    assert (tmp_path / "out/folder/deep/run.sh").stat().st_mode & 0o777 == 0o555
    assert (tmp_path / "out/folder").stat().st_mode & 0o777 == 0o555
    assert (tmp_path / "out/a.txt").stat().st_mtime_ns == MTIME_NS


def test_a_private_copy_can_be_written(store, tree, tmp_path):
    hydrate(store, tree.entries, tmp_path / "out", read_only=False)

    assert (tmp_path / "out/a.txt").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "out/folder/deep/run.sh").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "out/folder").stat().st_mode & 0o777 == 0o755


def test_a_large_file_in_many_packs_comes_out_whole(store, tmp_path):
    content = random.Random(1).randbytes(20 << 20)
    packed = PackedTree({"large.bin": content, "small": b"x"})
    packed.put_into(store)
    assert len(packed.entries[0].blobs) > 1

    done = hydrate(store, packed.entries, tmp_path / "out")

    assert (tmp_path / "out/large.bin").read_bytes() == content
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["large.bin", "small"]
    assert done.size_bytes == len(content) + 1


def test_pieces_in_the_wrong_order_are_found(store, tmp_path):
    packed = PackedTree({"large.bin": random.Random(1).randbytes(20 << 20)})
    packed.put_into(store)
    entry = packed.entries[0]
    shuffled = entry._replace(blobs=tuple(reversed(entry.blobs)))

    with pytest.raises(ContentCorrupt, match=r"large\.bin"):
        hydrate(store, [shuffled], tmp_path / "out")

    assert not (tmp_path / "out/large.bin").exists()


def test_a_damaged_file_is_named_and_never_shows(store, tree, tmp_path):
    (sha256,) = tree.packs
    at = tree.entries[1].blobs[0].offset
    data = bytearray(store.blobs[pack_key(sha256)])
    data[at] ^= 1
    store.blobs[pack_key(sha256)] = bytes(data)

    with pytest.raises(ContentCorrupt, match=r"folder/b\.txt"):
        hydrate(store, tree.entries, tmp_path / "out")

    assert not (tmp_path / "out/folder/b.txt").exists()


def test_damage_on_the_way_is_cured_by_a_second_read(tree, tmp_path):
    class Flaky(MemoryStore):
        has_failed = False

        def get_range(self, key, offset, size):
            data = super().get_range(key, offset, size)
            if self.has_failed:
                return data
            self.has_failed = True
            return bytes([data[0] ^ 1]) + data[1:]

    store = Flaky()
    tree.put_into(store)

    hydrate(store, tree.entries, tmp_path / "out")

    assert read_tree(tmp_path / "out") == CONTENT


def test_a_file_that_is_there_already_is_not_overwritten(store, tree, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"mine")

    with pytest.raises(TargetUnwritable, match=r"a\.txt"):
        hydrate(store, tree.entries, tmp_path)

    assert (tmp_path / "a.txt").read_bytes() == b"mine"


def test_an_interrupted_copy_goes_on_where_it_was(store, tree, tmp_path):
    hydrate(store, tree.entries[:3], tmp_path / "out", read_only=False)
    (tmp_path / "out/a.txt").write_bytes(b"bad")
    before = len(store.reads)

    hydrate(store, tree.entries, tmp_path / "out", keep_existing=True)

    assert read_tree(tmp_path / "out") == CONTENT
    assert len(store.reads) == before + 1


def test_nothing_is_written_through_a_link(store, tree, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/folder").symlink_to(outside)

    with pytest.raises(TargetUnwritable):
        hydrate(store, tree.entries, tmp_path / "out")

    assert list(outside.iterdir()) == []


def test_a_whole_pack_is_read_once(store, tmp_path):
    packed = PackedTree({f"{number:04}": os.urandom(1000) for number in range(500)}, pack_bytes=100_000)
    packed.put_into(store)

    hydrate(store, packed.entries, tmp_path / "out")

    assert len(store.reads) == len(packed.packs)


def test_progress_counts_files_bytes_and_what_was_moved(store, tmp_path):
    packed = PackedTree({f"{number:04}": os.urandom(1000) for number in range(500)}, pack_bytes=100_000)
    packed.put_into(store)
    seen = []

    done = hydrate(store, packed.entries, tmp_path / "out", on_progress=seen.append)

    assert done == seen[-1] == HydrationProgress(500, 500_000, 500_000)
    assert [step.files for step in seen] == sorted(step.files for step in seen)


def test_a_stop_is_obeyed(store, tmp_path):
    packed = PackedTree({f"{number:04}": os.urandom(1000) for number in range(500)}, pack_bytes=100_000)
    packed.put_into(store)
    asked = threading.Event()

    with pytest.raises(HydrationStopped):
        hydrate(
            store,
            packed.entries,
            tmp_path / "out",
            threads=1,
            on_progress=lambda _: asked.set(),
            should_stop=asked.is_set,
        )

    assert 0 < len(list((tmp_path / "out").iterdir())) < 500


class AwayStore(MemoryStore):
    """Does not answer the first so many reads."""

    def __init__(self, failures):
        super().__init__()
        self.failures = failures

    def get_range(self, key, offset, size):
        if self.failures:
            self.failures -= 1
            raise StoreUnreachable("The store answered with SlowDown.")
        return super().get_range(key, offset, size)


def retry_policy(waits, **options):
    return RetryPolicy(
        lambda error: Failure.UNAVAILABLE if isinstance(error, StoreUnreachable) else Failure.PERMANENT,
        sleep=waits.append,
        jitter=lambda: 1.0,
        **options,
    )


def test_a_store_that_is_away_for_a_while_is_waited_for_and_that_is_told(tmp_path):
    store, waits, told = AwayStore(3), [], []
    packed = PackedTree(FILES)
    packed.put_into(store)

    hydrate(store, packed.entries, tmp_path / "out", policy=retry_policy(waits), on_wait=told.append)

    assert read_tree(tmp_path / "out") == CONTENT
    assert waits == [0.5, 1.0, 2.0]
    assert {wait.reason for wait in told} == {"The store answered with SlowDown."}


def test_a_store_that_stays_away_is_given_up_with_its_reason_and_no_half_file(tmp_path):
    store = AwayStore(10_000)
    packed = PackedTree({f"{number:04}": os.urandom(1000) for number in range(500)}, pack_bytes=100_000)
    packed.put_into(store)

    with pytest.raises(StoreUnreachable, match="SlowDown"):
        hydrate(store, packed.entries, tmp_path / "out", policy=retry_policy([], max_elapsed_s=5.0))

    assert list((tmp_path / "out").iterdir()) == []


def test_who_waits_for_a_store_stops_when_asked(tmp_path):
    store, asked = AwayStore(10_000), threading.Event()
    packed = PackedTree(FILES)
    packed.put_into(store)

    with pytest.raises(HydrationStopped):
        hydrate(store, packed.entries, tmp_path / "out", on_wait=lambda _: asked.set(), should_stop=asked.is_set)
