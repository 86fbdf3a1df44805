"""Packs are deterministic, self-describing, and refuse what is not one."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.tests.pack_check import check_pack
from nearline.content import packs
from nearline.content.errors import BadPack, ContentError, HashMismatch
from nearline.content.hashing import file_id


def build(blobs):
    builder = packs.PackBuilder()
    for blob in blobs:
        builder.add(blob)
    return builder.finish()


BLOBS = st.lists(st.binary(min_size=1, max_size=40), max_size=8)


@given(BLOBS)
def test_a_pack_gives_back_its_blobs(blobs):
    pack = build(blobs)

    assert check_pack(pack.data) == list(pack.blobs)
    assert [pack.data[b.offset : b.offset + b.size] for b in pack.blobs] == blobs
    assert [b.content_id for b in pack.blobs] == [file_id(blob) for blob in blobs]
    assert pack.sha256 == hashlib.sha256(pack.data).digest()


@given(BLOBS)
def test_the_same_blobs_make_the_same_pack(blobs):
    assert build(blobs) == build(blobs)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_pack_or_refused(data):
    try:
        blobs = packs.read_footer(data)
    except BadPack:
        return
    assert sum(blob.size for blob in blobs) < len(data)


@given(BLOBS, st.data())
def test_a_damaged_pack_is_refused(blobs, data):
    pack = bytearray(build(blobs).data)
    position = data.draw(st.integers(0, len(pack) - 1))
    pack[position] ^= data.draw(st.integers(1, 255))

    with pytest.raises(ContentError):
        check_pack(pack)


def test_a_damaged_blob_is_named():
    pack = bytearray(build([b"first", b"second"]).data)
    pack[7] ^= 1

    with pytest.raises(HashMismatch, match="blob at byte 5"):
        check_pack(pack)


def test_a_large_blob_goes_into_a_pack_without_a_copy():
    small, large = b"s" * 1000, bytes(range(256)) * 1024

    assert build([large, large, small]).parts[:2] == (large, large)
    assert all(part is large for part in build([large, large, small]).parts[:2])
    assert build([small] * 300).parts[0] == small * 263  # 256 KiB and the rest of one blob


def test_a_pack_fits_up_to_its_target_and_always_for_one_blob():
    builder = packs.PackBuilder(target_bytes=200)

    assert builder.fits(1000)
    builder.add(b"x" * 100)
    assert builder.fits(16)
    assert not builder.fits(17)
    builder.add(b"y" * 16)
    assert len(builder.finish().data) == 200
    assert builder.is_empty


@pytest.mark.parametrize("blob", [b"", b"x" * (packs.MAX_BLOB_BYTES + 1)])
def test_a_blob_of_an_impossible_size_is_refused_and_not_added(blob):
    builder = packs.PackBuilder()

    with pytest.raises(BadPack):
        builder.add(blob)

    assert builder.is_empty
