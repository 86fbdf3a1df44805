"""A plan brings every blob, with few reads: packs at once where most is needed, in joined parts elsewhere."""

from hypothesis import given, settings
from hypothesis import strategies as st

from nearline.content.entries import BlobRef, Entry, EntryKind
from nearline.content.hashing import file_id
from nearline.hydrate.engine import MAX_GAP_BYTES, plan_reads

PACK = bytes(32)
KIB, MIB = 1 << 10, 1 << 20

blobs = st.builds(
    lambda pack, offset, size: BlobRef(file_id(b"x"), bytes([pack]) * 32, offset, size),
    st.integers(0, 2),
    st.integers(0, 32 * MIB),
    st.integers(1, 4 * MIB),
)
files = st.lists(st.lists(blobs, min_size=1, max_size=3), max_size=20).map(
    lambda found: [
        Entry(b"%d" % number, 0o644, sum(blob.size for blob in some), 0, file_id(b""), blobs=tuple(some))
        for number, some in enumerate(found)
    ]
)


def one(*places):
    return [
        Entry(b"%d" % number, 0o644, size, 0, file_id(b""), blobs=(BlobRef(file_id(b""), PACK, offset, size),))
        for number, (offset, size) in enumerate(places)
    ]


def file_at(offset, size, pack=b"p" * 32):
    blob = BlobRef(b"c" * 32, pack, offset, size)
    return Entry(b"f", 0o644, size, 0, b"c" * 32, EntryKind.FILE, (blob,))


def reads(*entries):
    return [(span.offset, span.size, len(span.pieces)) for span in plan_reads(entries)]


@given(files)
@settings(max_examples=200)
def test_every_blob_is_brought_once_by_a_read_that_holds_all_of_it(entries):
    pieces = [(span, piece) for span in plan_reads(entries) for piece in span.pieces]

    for span, piece in pieces:
        assert piece.blob.pack.hex() == span.pack
        assert span.offset <= piece.blob.offset
        assert piece.blob.offset + piece.blob.size <= span.offset + span.size
    wanted = sorted((entry.path, blob) for entry in entries for blob in entry.blobs)
    assert sorted((piece.entry.path, piece.blob) for _, piece in pieces) == wanted


@given(files)
def test_the_pieces_of_a_file_fill_it_without_gaps(entries):
    pieces = [piece for span in plan_reads(entries) for piece in span.pieces]

    for entry in entries:
        mine = sorted((p.file_offset, p.blob.size) for p in pieces if p.entry.path == entry.path)
        end = 0
        for offset, size in mine:
            assert offset == end
            end += size
        assert end == entry.size


@given(st.lists(st.tuples(st.integers(0, 60 * MIB), st.integers(1, 4 * MIB), st.sampled_from([b"p" * 32, b"q" * 32]))))
def test_every_needed_byte_is_read_exactly_in_the_read_of_its_file(extents):
    entries = [file_at(*extent) for extent in extents]

    planned = plan_reads(entries)

    assert sorted(id(piece.entry) for span in planned for piece in span.pieces) == sorted(map(id, entries))
    for span in planned:
        assert span.size <= 64 * MIB
        for piece in span.pieces:
            assert piece.blob.pack.hex() == span.pack
            assert span.offset <= piece.blob.offset
            assert piece.blob.offset + piece.blob.size <= span.offset + span.size


def test_neighbours_come_with_one_read():
    assert [(span.offset, span.size) for span in plan_reads(one((0, 10), (10, 10), (500, 10)))] == [(0, 510)]


def test_a_wide_gap_is_not_read():
    far = 10 * MIB + MAX_GAP_BYTES

    assert [(span.offset, span.size) for span in plan_reads(one((0, KIB), (far, KIB)))] == [(0, KIB), (far, KIB)]


def test_a_pack_of_which_half_is_needed_is_read_at_once():
    spans = plan_reads(one((0, 10 * MIB), (20 * MIB, 10 * MIB)))

    assert [(span.offset, span.size) for span in spans] == [(0, 30 * MIB)]


def test_a_pack_of_which_half_is_needed_is_one_read():
    assert reads(file_at(0, 8 * MIB), file_at(24 * MIB, 8 * MIB)) == [(0, 32 * MIB, 2)]


def test_far_apart_files_are_read_apart():
    assert reads(file_at(0, KIB), file_at(30 * MIB, KIB)) == [(0, KIB, 1), (30 * MIB, KIB, 1)]


def test_gaps_up_to_a_mebibyte_are_read_over():
    near, far = file_at(KIB + MIB, KIB), file_at(3 * MIB + 2 * KIB + 1, KIB)

    assert reads(file_at(0, KIB), near, far) == [(0, MIB + 2 * KIB, 2), (3 * MIB + 2 * KIB + 1, KIB, 1)]


def test_files_with_the_same_content_are_read_once():
    assert reads(file_at(5, 10), file_at(5, 10), file_at(5, 10)) == [(5, 10, 3)]
