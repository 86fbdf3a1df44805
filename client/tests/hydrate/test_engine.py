"""Hydration reads as little again as it can, leaves nothing half, and ends when it should."""

import random
import threading

import pytest

from client.tests.hydrate.packed import Damaged, Packs
from nearline.content.retry import Failure, RetryPolicy
from nearline.hydrate.engine import Cancellation, Cancelled, hydrate
from nearline.hydrate.folder import FolderTarget

ONCE = RetryPolicy(lambda _: Failure.PERMANENT)
FILES = {"a": b"one", "b": b"two", "c": b"three"}
LARGE = random.Random(1).randbytes(40 << 20)


def visible(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_only_what_came_damaged_is_read_again(tmp_path):
    packs = Packs(before=lambda data: flip(data, 3) if len(packs.reads) == 1 else data)
    entries = packs.add(FILES)

    hydrate(packs, FolderTarget(tmp_path / "out"), entries, policy=ONCE)

    (name,) = packs.data
    assert packs.reads == [(name, 0, 11), (name, 3, 3)]
    assert visible(tmp_path / "out") == FILES


def test_what_stays_damaged_is_named_after_three_reads_and_its_neighbours_are_right(tmp_path):
    packs = Packs()
    entries = packs.add(FILES)
    (name,) = packs.data
    packs.data[name] = flip(packs.data[name], 3)

    with pytest.raises(Damaged) as raised:
        hydrate(packs, FolderTarget(tmp_path / "out"), entries, policy=ONCE)

    assert raised.value.args == (b"b", name)
    assert packs.reads == [(name, 0, 11), (name, 3, 3), (name, 3, 3)]
    assert visible(tmp_path / "out") == {"a": b"one", "c": b"three"}


def test_a_pack_that_is_cut_short_is_damaged(tmp_path):
    packs = Packs(before=lambda data: data[:-1])
    entries = packs.add(FILES)

    with pytest.raises(Damaged):
        hydrate(packs, FolderTarget(tmp_path / "out"), entries, policy=ONCE)

    assert visible(tmp_path / "out") == {"a": b"one", "b": b"two"}


def test_a_large_file_comes_whole(tmp_path):
    packs = Packs()
    entries = packs.add({"large": LARGE, "small": b"x"})

    done = hydrate(packs, FolderTarget(tmp_path / "out"), entries, policy=ONCE)

    assert visible(tmp_path / "out") == {"large": LARGE, "small": b"x"}
    assert (done.files, done.size_bytes, done.bytes_moved) == (2, len(LARGE) + 1, len(LARGE) + 1)


def test_of_a_large_file_with_a_damaged_piece_nothing_is_left(tmp_path):
    packs = Packs()
    entries = packs.add({"large": LARGE})
    (name,) = packs.data
    packs.data[name] = flip(packs.data[name], 20 << 20)

    with pytest.raises(Damaged) as raised:
        hydrate(packs, FolderTarget(tmp_path / "out"), entries, policy=ONCE)

    assert raised.value.args == (b"large", name)
    assert visible(tmp_path / "out") == {}


def test_right_pieces_in_the_wrong_order_are_no_file(tmp_path):
    packs = Packs()
    (entry,) = packs.add({"large": LARGE})

    with pytest.raises(Damaged) as raised:
        hydrate(
            packs, FolderTarget(tmp_path / "out"), [entry._replace(blobs=tuple(reversed(entry.blobs)))], policy=ONCE
        )

    assert raised.value.args == (b"large", None)
    assert visible(tmp_path / "out") == {}


def test_a_thread_that_waits_for_the_source_ends_when_another_fails(tmp_path):
    packs = Packs()
    entries = [*packs.add({"away": b"away"}), *packs.add({"refused": b"refused"})]
    away, _ = packs.data
    real_read = packs.read
    cancellation = Cancellation()
    policy = RetryPolicy(
        lambda error: Failure.UNAVAILABLE if isinstance(error, TimeoutError) else Failure.PERMANENT,
        sleep=cancellation.sleep,
        base_delay_s=300.0,
        max_delay_s=300.0,
        jitter=lambda: 1.0,
    )

    def read(pack, offset, size):
        real_read(pack, offset, size)
        raise TimeoutError if pack == away else PermissionError

    packs.read = read

    with pytest.raises(PermissionError):
        hydrate(packs, FolderTarget(tmp_path / "out"), entries, policy=policy, threads=2, cancellation=cancellation)

    assert visible(tmp_path / "out") == {}


def test_work_that_is_cancelled_before_it_begins_reads_nothing(tmp_path):
    packs = Packs()
    entries = packs.add(FILES)

    with pytest.raises(Cancelled):
        hydrate(packs, FolderTarget(tmp_path / "out"), entries, policy=ONCE, cancellation=Cancellation(lambda: True))

    assert packs.reads == []


def test_where_files_are_read_meanwhile_the_first_reads_are_made_one_at_a_time(tmp_path):
    threads = []
    packs = Packs(before=lambda data: threads.append(threading.current_thread().name) or data)
    entries = [entry for n in range(40) for entry in packs.add({f"{n}": f"{n:08}".encode() * (1 << 17)})]

    hydrate(packs, FolderTarget(tmp_path / "out"), entries, policy=ONCE, threads=4, next_packs=list)

    own = threading.current_thread().name
    assert ([name == own for name in threads], len(threads)) == ([True] * 32 + [False] * 8, 40)


def test_next_packs_are_read_before_the_others_and_reads_begin_short_and_grow(tmp_path):
    packs = Packs()
    half = 1 << 19
    entries = [
        entry
        for name in "abc"
        for entry in packs.add({f"{name}{n}": f"{name}{n:07}".encode() * (half // 8) for n in range(30)})
    ]
    names = list(packs.data)

    hydrate(packs, FolderTarget(tmp_path / "out"), entries, policy=ONCE, threads=1, next_packs=lambda: names[1:2])

    # A read has at most a sixteenth of what was taken before, and two of these files at the least.
    assert [size // half for _, _, size in packs.reads] == [2] * 24 + [3] * 6 + [4] * 4 + [5, 3]
    assert [names.index(name) for name, _, _ in packs.reads] == [1] * 15 + [0] * 13 + [2] * 8
