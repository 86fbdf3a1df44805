"""A plan brings every blob, with few reads, and reads little that nobody wants."""

from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.engine.fetch_plan import MAX_GAP_BYTES, plan_reads
from nearline.content.hashing import file_id
from nearline.content.manifest import BlobRef, Entry

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


def test_neighbours_come_with_one_read():
    assert [(span.offset, span.size) for span in plan_reads(one((0, 10), (10, 10), (500, 10)))] == [(0, 510)]


def test_a_wide_gap_is_not_read():
    far = 10 * MIB + MAX_GAP_BYTES

    assert [(span.offset, span.size) for span in plan_reads(one((0, KIB), (far, KIB)))] == [(0, KIB), (far, KIB)]


def test_a_pack_of_which_half_is_wanted_is_read_at_once():
    spans = plan_reads(one((0, 10 * MIB), (20 * MIB, 10 * MIB)))

    assert [(span.offset, span.size) for span in spans] == [(0, 30 * MIB)]
