"""Rows that are packed are what they were, in their order, and take little."""

import pickle
import tracemalloc

import pytest

from nearline.content.entries import Entry, EntryKind
from nearline.transfer.local.packed_rows import PackedRows
from nearline.transfer.local.scan import Suspect
from nearline.transfer.local.walk import LocalFile

BLOCK = 4096


def suspect(number):
    """A file of its own, of any kind."""
    path = b"folder/%07d" % number
    before = Entry(path, 0o755, number, -number, bytes(32)) if number % 3 else None
    kind, target = (EntryKind.SYMLINK, b"target") if number % 5 == 0 else (EntryKind.FILE, b"")
    file = LocalFile(path, kind, 0o644, number << 40, 10**18 + number, 10**18 - number, number, target)
    return Suspect(file, before, bytes(32) if number % 7 == 0 else None)


@pytest.mark.parametrize("count", [0, 1, BLOCK - 1, BLOCK, 2 * BLOCK + 1])
def test_rows_come_back_as_they_were_as_often_as_they_are_asked_for(count):
    rows = [suspect(number) for number in range(count)]

    packed = PackedRows(rows)

    assert (len(packed), list(packed), list(packed)) == (count, rows, rows)
    assert {type(value) for row in packed for value in (row, row.file)} <= {Suspect, LocalFile}
    assert list(pickle.loads(pickle.dumps(packed))) == rows


def test_rows_that_are_taken_are_left_nowhere():
    rows = [suspect(number) for number in range(BLOCK + 1)]
    packed = PackedRows(rows)

    assert list(packed.take_all()) == rows
    assert (len(packed), list(packed)) == (0, [])


def test_the_rows_of_another_list_follow_the_own_ones_and_others_follow_these():
    rows = [suspect(number) for number in range(2 * BLOCK)]
    packed = PackedRows(rows[:10])

    packed.take_over(PackedRows(rows[10 : BLOCK + 20]))
    packed.take_over(PackedRows())
    for row in rows[BLOCK + 20 :]:
        packed.append(row)

    assert (len(packed), list(packed)) == (2 * BLOCK, rows)


def test_a_new_file_takes_less_than_a_hundred_bytes():
    count = 10 * BLOCK
    tracemalloc.start()
    try:
        packed = PackedRows(suspect(3 * number) for number in range(count))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(packed) == count
    assert size < 100 * count
