"""Large files are cut by content, so an insertion changes the chunks around it only."""

import io
import random

from nearline.content import packs

MIB = 1 << 20
# docs/reference/format.md lists these cuts too. Other cuts are another version of the format.
PINNED_OFFSETS = [0, 4970371, 9790801]


def cut(data):
    return [(c.offset, bytes(c.data)) for c in packs.cut_chunks(io.BytesIO(data), len(data))]


def test_a_file_up_to_the_threshold_is_one_chunk():
    data = random.Random(1).randbytes(16 * MIB)

    assert cut(data) == [(0, data)]


def test_an_empty_file_has_no_chunk():
    assert cut(b"") == []


def test_a_large_file_is_cut_within_the_bounds_and_completely():
    data = random.Random(2).randbytes(40 * MIB)

    chunks = cut(data)

    assert b"".join(piece for _, piece in chunks) == data
    assert [offset for offset, _ in chunks][:3] == PINNED_OFFSETS
    assert all(packs.MIN_CHUNK_BYTES <= len(piece) <= packs.MAX_CHUNK_BYTES for _, piece in chunks[:-1])


def test_an_insertion_at_the_front_keeps_the_later_chunks():
    data = random.Random(2).randbytes(40 * MIB)

    before = {piece for _, piece in cut(data)}
    after = {piece for _, piece in cut(b"a few new bytes" + data)}

    assert len(after - before) <= 2
    assert len(after & before) >= 4


def test_content_without_any_boundary_is_cut_at_the_maximum():
    chunks = cut(bytes(33 * MIB))

    assert [len(piece) for _, piece in chunks] == [16 * MIB, 16 * MIB, 1 * MIB]
