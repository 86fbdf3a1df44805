"""A range of plain files is checked by its columns; whatever is unsound in it is refused."""

import contextlib
from array import array

import pytest
from hypothesis import given

from nearline.content.entries import MAX_MODE
from nearline.content.errors import ContentError
from nearline.content.hashing import ID_BYTES
from nearline.content.packs import MAX_BLOB_BYTES, MAX_PACK_BYTES
from nearline.content.range_codec import build_range, encode_range, read_columns, read_range
from nearline.content.range_entries import Columns, PathColumns, RangeEntries
from tests.engine.content.strategies import file_entry, trees


def columns(**changes) -> Columns:
    """Return a sound range of two files of one blob each, with some columns changed."""
    sound = Columns(
        names=PathColumns.of([b"a", b"b"]),
        kinds=bytes(2),
        modes=array("H", [0o644, 0o644]),
        sizes=array("Q", [10, 20]),
        times=array("q", [0, 0]),
        content_ids=bytes(2 * ID_BYTES),
        blob_counts=array("I", [1, 1]),
        targets=b"",
        chunk_ids=b"",
        chunk_sizes=array("Q"),
        pack_ordinals=array("I", [0, 0]),
        offsets=array("Q", [0, 10]),
        packs=[bytes(ID_BYTES)],
    )
    return sound._replace(**changes)


def test_a_sound_range_is_taken():
    RangeEntries(columns()).check()


@pytest.mark.parametrize(
    "changes",
    [
        {"modes": array("H", [0o644, MAX_MODE + 1])},
        {"sizes": array("Q", [10, 0])},
        {"sizes": array("Q", [MAX_BLOB_BYTES + 1, 20])},
        {"offsets": array("Q", [0, MAX_PACK_BYTES - 19])},
    ],
)
def test_one_unsound_column_is_enough_to_refuse_a_range(changes):
    with pytest.raises(ContentError):
        RangeEntries(columns(**changes)).check()


def test_an_unsound_entry_is_refused_also_where_another_file_has_no_blob_of_its_own():
    changes = {"pack_ordinals": array("I", [0]), "offsets": array("Q", [0]), "blob_counts": array("I", [0, 1])}

    with pytest.raises(ContentError):
        RangeEntries(columns(**changes)).check()


def test_a_blob_may_end_where_its_pack_does():
    RangeEntries(columns(offsets=array("Q", [0, MAX_PACK_BYTES - 20]))).check()


@given(trees().filter(bool))
def test_the_ends_of_packs_are_those_of_the_last_blobs(entries):
    ends = {}
    for blob in (blob for entry in entries for blob in entry.blobs):
        ends[blob.pack] = max(ends.get(blob.pack, 0), blob.offset + blob.size)

    assert read_range(encode_range(entries)).entries.pack_ends() == ends


@pytest.mark.parametrize("is_checked", [True, False])
def test_a_range_with_changed_entries_is_as_sound_as_it_was_before(is_checked):
    before = RangeEntries(columns(names=PathColumns.of([b"a", b"a/b"])) if not is_checked else columns())
    with contextlib.suppress(ContentError):
        before.check()

    after = before.with_changed([1], RangeEntries(read_columns([before[1]._replace(mode=0o755)])))

    with contextlib.nullcontext() if is_checked else pytest.raises(ContentError):
        after.check()


@pytest.mark.parametrize(
    ("listed", "changed", "packs"),
    [
        (b"aab", {0: b"n"}, b"nab"),
        (b"aab", {0: b"b"}, b"bab"),
        (b"aab", {2: b"a"}, b"aaa"),
        (b"aab", {1: b"n", 2: b"a"}, b"ana"),
        (b"abba", {2: b"n", 3: b"m"}, b"abnm"),
    ],
)
def test_a_range_with_changed_entries_lists_its_packs_in_the_order_of_their_first_use(listed, changed, packs):
    before, after = (
        [file_entry(b"%d" % index, pack=bytes([pack]) * ID_BYTES) for index, pack in enumerate(names)]
        for names in (listed, packs)
    )
    entries = read_range(encode_range(before)).entries

    merged = entries.with_changed(list(changed), RangeEntries(read_columns([after[index] for index in changed])))

    assert build_range(merged) == build_range(after)
