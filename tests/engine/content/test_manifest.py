"""Ranges and roots: the same entries make the same bytes, and bytes are a sound range or refused."""

import contextlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearline.content import manifest, range_codec
from nearline.content.errors import BadManifest, BadPath, ContentError
from nearline.content.manifest import Entry, EntryKind
from tests.engine.content.strategies import file_entry, trees


@given(trees().filter(bool))
def test_a_range_gives_back_its_entries(entries):
    encoded = manifest.build_range(entries)

    assert manifest.decode_range(encoded.data) == entries
    assert manifest.range_id(encoded.data) == encoded.range_id
    assert manifest.encode_range(entries) == encoded.data


@given(trees().filter(bool), st.integers(0, 1000))
def test_the_time_of_a_file_travels_but_is_no_part_of_the_id(entries, mtime_ns):
    touched = [entry._replace(mtime_ns=mtime_ns) for entry in entries]

    assert manifest.build_range(touched).range_id == manifest.build_range(entries).range_id
    assert manifest.decode_range(manifest.encode_range(touched)) == touched


@given(trees(max_size=4).filter(bool), trees(max_size=4).filter(bool))
def test_ranges_with_other_content_have_other_ids(first, second):
    def without_times(entries):
        return [entry._replace(mtime_ns=0) for entry in entries]

    is_same = without_times(first) == without_times(second)
    assert (manifest.build_range(first).range_id == manifest.build_range(second).range_id) == is_same


@given(trees())
def test_a_tree_gives_back_its_entries(entries):
    tree = manifest.build_tree(entries)

    ranges = manifest.decode_root(tree.root)
    assert ranges == tree.ranges
    read = [manifest.check_range(row, manifest.load_range(row.range_id, tree.objects.__getitem__)) for row in ranges]
    assert [entry for range_entries in read for entry in range_entries] == entries


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_as_range_and_root_or_read(data):
    for decode in (manifest.decode_range, manifest.decode_root, manifest.range_id):
        with contextlib.suppress(ContentError):
            decode(data)


@given(trees().filter(bool), st.data())
def test_a_damaged_range_is_refused_or_has_another_id_or_other_times_only(entries, data):
    encoded = manifest.build_range(entries)
    damaged = bytearray(encoded.data)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))

    try:
        found = range_codec.read_range(bytes(damaged))
    except ContentError:
        return
    if found.range_id == encoded.range_id:
        assert [e._replace(mtime_ns=0) for e in found.entries] == [e._replace(mtime_ns=0) for e in entries]


@given(trees().filter(bool), st.data())
def test_columns_that_unfold_to_other_values_are_refused_or_canonical(entries, data):
    """Damage below the compression, where a hostile sender would put it."""
    raw = bytearray(_unfold(manifest.encode_range(entries)))
    raw[data.draw(st.integers(8, len(raw) - 1))] ^= data.draw(st.integers(1, 255))

    try:
        decoded = manifest.decode_range(_fold(bytes(raw), manifest.encode_range(entries)))
    except ContentError:
        return
    assert manifest.build_range(decoded).range_id == range_codec.read_range(manifest.encode_range(decoded)).range_id


@given(trees(), st.data())
def test_a_damaged_root_is_refused_or_has_another_id(entries, data):
    root = manifest.build_tree(entries).root
    damaged = bytearray(root)
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))

    try:
        manifest.decode_root(bytes(damaged))
    except ContentError:
        return
    assert manifest.root_id(bytes(damaged)) != manifest.root_id(root)


def test_a_column_cannot_unfold_beyond_what_the_header_allows():
    encoded = manifest.encode_range([file_entry(b"a")])
    bomb = zlib.compress(bytes(50 << 20), 1)
    hostile = encoded[:24] + b"\x01" + len(bomb).to_bytes(4, "little") + bomb + encoded[24:]

    with pytest.raises(BadManifest, match="wrong length"):
        manifest.decode_range(hostile)


@pytest.mark.parametrize(
    "entries",
    [
        [file_entry(b"b"), file_entry(b"a")],
        [file_entry(b"a"), file_entry(b"a")],
        [file_entry(b"a"), file_entry(b"a/b")],
        [file_entry(b"a", mode=0o1777)],
        [file_entry(b"a", b"short")],
        [file_entry(b"a", offset=64 << 20)],
        [file_entry(b"a", size=0)],
        [file_entry(b"a")._replace(size=11)],
        [file_entry(b"a")._replace(content_id=b"d" * 32)],
        [file_entry(b"a")._replace(target=b"x")],
        [Entry(b"a", 0o644, 0, 0, b"c" * 32)],
        [Entry(b"a", 0o644, 5, 0, b"c" * 32)],
        [Entry(b"a", 0o777, 1, 0, b"c" * 32, EntryKind.SYMLINK, (), b"x")],
        [],
    ],
)
def test_a_range_that_contradicts_itself_is_refused_when_it_is_written(entries):
    with pytest.raises(BadManifest):
        manifest.encode_range(entries)


def test_a_hostile_path_or_link_is_refused_by_name():
    with pytest.raises(BadPath, match=r"'\.\./x' contains the component"):
        manifest.encode_range([file_entry(b"../x")])
    with pytest.raises(BadPath, match="'d/link' is a symbolic link that leads out of the dataset"):
        manifest.encode_range([manifest.new_symlink(b"d/link", b"../../x", 0)])


def test_a_range_that_is_not_what_its_root_says_is_refused():
    tree = manifest.build_tree([file_entry(b"a"), file_entry(b"b")])
    other = range_codec.read_range(manifest.encode_range([file_entry(b"a")])).entries

    with pytest.raises(BadManifest, match="not what its root says"):
        manifest.check_range(tree.ranges[0], other)


def names(count):
    return [b"train/%07d.png" % number for number in range(count)]


def test_ranges_are_cut_after_boundary_names_and_never_below_the_minimum():
    pieces = list(manifest.split_ranges(map(file_entry, names(60_000))))

    assert [entry.path for piece in pieces for entry in piece] == names(60_000)
    for piece in pieces[:-1]:
        assert 1_024 <= len(piece) <= 32_768
        assert manifest.is_boundary(piece[-1].path)
        assert not any(manifest.is_boundary(entry.path) for entry in piece[1_023:-1])


def test_a_range_without_any_boundary_ends_at_the_maximum():
    entries = (file_entry(name) for name in names(300_000) if not manifest.is_boundary(name))

    sizes = [len(piece) for piece in manifest.split_ranges(list(entries)[:70_000])]

    assert sizes == [32_768, 32_768, 4_464]


def test_an_added_name_changes_one_range_of_the_tree():
    before = manifest.build_tree(map(file_entry, names(40_000)))
    after = manifest.build_tree(map(file_entry, sorted([*names(40_000), b"train/0020000b.png"])))

    new = {row.range_id for row in after.ranges} - {row.range_id for row in before.ranges}
    assert len(new) == 1
    assert len(before.ranges) > 3


def _unfold(encoded):
    parts, position = [encoded[:24]], 24
    while position < len(encoded):
        codec, length = encoded[position], int.from_bytes(encoded[position + 1 : position + 5], "little")
        stored = encoded[position + 5 : position + 5 + length]
        parts.append(zlib.decompress(stored) if codec else stored)
        position += 5 + length
    return b"".join(parts)


def _fold(raw, like):
    parts, position, taken = [raw[:24]], 24, 24
    while position < len(like):
        codec, length = like[position], int.from_bytes(like[position + 1 : position + 5], "little")
        stored = like[position + 5 : position + 5 + length]
        size = len(zlib.decompress(stored)) if codec else len(stored)
        column = raw[taken : taken + size]
        stored = zlib.compress(column, 1) if codec else column
        parts += [bytes([codec]), len(stored).to_bytes(4, "little"), stored]
        position += 5 + length
        taken += size
    return b"".join(parts)


@given(trees().filter(bool))
def test_the_ids_that_a_range_names_are_seen_without_reading_it(entries):
    named = [entry.content_id for entry in entries]
    named += [blob.content_id for entry in entries if len(entry.blobs) > 1 for blob in entry.blobs]

    assert manifest.peek_ids(manifest.encode_range(entries)) == b"".join(named)


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_when_peeked_at_or_seen(data):
    with contextlib.suppress(BadManifest):
        manifest.peek_ids(data)


@given(trees(max_size=20).filter(bool), st.booleans())
def test_entries_made_one_by_one_are_those_made_at_once(entries, is_verified):
    found = range_codec.read_range(manifest.encode_range(entries), is_verified=is_verified).entries

    assert [found[index] for index in range(len(found))] == list(found) == entries
    assert found[-1] == entries[-1]
    assert found[1:3] == entries[1:3]
    assert list(found.paths) == [entry.path for entry in entries]
    assert list(found.sizes) == [entry.size for entry in entries]
    assert found.content_ids == b"".join(entry.content_id for entry in entries)
    with pytest.raises(IndexError):
        found[len(entries)]


def test_plain_files_are_checked_column_by_column():
    sound = [file_entry(b"a"), file_entry(b"b", offset=10)]
    data = manifest.encode_range(sound)

    assert range_codec.read_range(data).entries.is_plain
    for bad in (
        {"mode": 0o1777},
        {"size": 0},
        {"size": 65 << 20},
    ):
        with pytest.raises(ContentError):
            manifest.encode_range([sound[0], sound[1]._replace(**bad)])
