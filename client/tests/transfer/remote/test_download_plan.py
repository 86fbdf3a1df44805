"""Packs are read whole where most of them is wanted, in joined parts elsewhere."""

from hypothesis import given
from hypothesis import strategies as st

from nearline.content.entries import BlobRef, Entry, EntryKind
from nearline.transfer.remote.download import Wanted, plan_pieces

KIB, MIB = 1 << 10, 1 << 20


def wanted(offset, size, pack=b"p" * 32):
    blob = BlobRef(b"c" * 32, pack, offset, size)
    return Wanted(Entry(b"f", 0o644, size, 0, b"c" * 32, EntryKind.FILE, (blob,)), lambda: b"f")


def pieces(*files):
    return [(piece.offset, piece.size, len(piece.files)) for piece in plan_pieces(files)]


def test_a_pack_of_which_half_is_wanted_is_one_read():
    assert pieces(wanted(0, 8 * MIB), wanted(24 * MIB, 8 * MIB)) == [(0, 32 * MIB, 2)]


def test_far_apart_files_are_read_apart():
    assert pieces(wanted(0, KIB), wanted(30 * MIB, KIB)) == [(0, KIB, 1), (30 * MIB, KIB, 1)]


def test_gaps_up_to_a_mebibyte_are_read_over():
    near, far = wanted(KIB + MIB, KIB), wanted(3 * MIB + 2 * KIB + 1, KIB)

    assert pieces(wanted(0, KIB), near, far) == [(0, MIB + 2 * KIB, 2), (3 * MIB + 2 * KIB + 1, KIB, 1)]


def test_files_with_the_same_content_are_read_once():
    assert pieces(wanted(5, 10), wanted(5, 10), wanted(5, 10)) == [(5, 10, 3)]


@given(st.lists(st.tuples(st.integers(0, 60 * MIB), st.integers(1, 4 * MIB), st.sampled_from([b"p" * 32, b"q" * 32]))))
def test_every_wanted_byte_is_read_exactly_in_the_piece_of_its_file(extents):
    files = [wanted(*extent) for extent in extents]

    planned = plan_pieces(files)

    assert sorted(map(id, (file for piece in planned for file in piece.files))) == sorted(map(id, files))
    for piece in planned:
        assert piece.size <= 64 * MIB
        for file in piece.files:
            blob = file.entry.blobs[0]
            assert blob.pack == piece.pack
            assert piece.offset <= blob.offset
            assert blob.offset + blob.size <= piece.offset + piece.size
