"""A range that is stored as what it changes of another one is read as that range, and nothing else is."""

import contextlib
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nearline.content import manifest, range_codec
from nearline.content.diff import Change, apply_changes, diff_entries, patch_tree
from nearline.content.errors import BadManifest, ContentError
from nearline.content.manifest import load_range
from nearline.content.paths import find_clashes
from nearline.content.range_deltas import MAX_DELTAS, encode_delta, encode_short_delta, find_base
from tests.engine.content.strategies import file_entry, trees

MANY = [file_entry(b"%05d" % number, b"%032d" % number, offset=number) for number in range(1_000)]


def entries_of(data):
    return range_codec.read_range(data).entries


def delta_of(base, entries):
    encoded = manifest.build_range(base)
    return encode_delta(encoded.range_id, entries_of(encoded.data), entries)


def objects_of(base, entries):
    """Return the objects of two ranges, the second as a delta of the first, and the ids of both."""
    first, second = manifest.build_range(base), manifest.build_range(entries)
    return {first.range_id: first.data, second.range_id: delta_of(base, entries)}, first.range_id, second.range_id


def edited(entries, other):
    """Return a tree in which some entries of another one have come in."""
    merged = sorted({**{e.path: e for e in entries}, **{e.path: e for e in other}}.values())
    clashing = {clash.names[1] for clash in find_clashes([e.path for e in merged])}
    return [entry for entry in merged if entry.path not in clashing]


@st.composite
def edits(draw):
    """Draw a range, and what it becomes: entries change in anything, come and go; some of it as plain files only."""
    before, coming = draw(trees().filter(bool)), draw(trees(max_size=3))
    left = draw(st.integers(1, len(before)))
    after = edited(before[len(before) - left :] if draw(st.booleans()) else before, coming)
    after = [e._replace(mtime_ns=7) if draw(st.booleans()) else e for e in after]
    if draw(st.booleans()):
        before, after = ([file_entry(e.path, bytes([e.mode % 5]) * 32) for e in side] for side in (before, after))
    return before, after


@settings(max_examples=40)
@given(edits(), st.booleans())
def test_base_and_delta_make_the_whole_range_with_its_id_and_its_times(edit, is_verified):
    before, after = edit
    objects, _, range_id = objects_of(before, after)
    assume(len(objects) == 2)

    entries = load_range(range_id, objects.__getitem__, is_verified=is_verified)

    assert list(entries) == after
    assert manifest.build_range(entries) == manifest.build_range(after)


@settings(max_examples=40)
@given(edits(), st.data())
def test_a_damaged_delta_is_refused_or_differs_in_times_only(edit, data):
    before, after = edit
    objects, base_id, range_id = objects_of(before, after)
    assume(len(objects) == 2)
    damaged = bytearray(objects[range_id])
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    objects[range_id] = bytes(
        damaged[: data.draw(st.integers(0, len(damaged)))] if data.draw(st.booleans()) else damaged
    )

    for is_verified in (False, True):
        with contextlib.suppress(ContentError):
            read = load_range(range_id, lambda id_: objects.get(id_, objects[base_id]), is_verified=is_verified)
            assert [e._replace(mtime_ns=0) for e in read] == [e._replace(mtime_ns=0) for e in after]


@settings(max_examples=40)
@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_behind_the_head_of_a_delta_are_refused(removed, rest):
    base = manifest.build_range(MANY)
    data = delta_of(MANY, [*MANY[1:]])[:40] + removed + rest

    with pytest.raises(ContentError):
        load_range("00" * 32, {"00" * 32: data, base.range_id: base.data}.__getitem__)


@settings(max_examples=20)
@given(trees(max_size=9).map(lambda tree: edited(MANY, tree)), trees(max_size=5), st.data())
def test_a_patched_tree_is_the_same_whether_it_is_stored_with_deltas_or_without(base, other, data):
    """Two commits, the second of them on what is stored as deltas already."""
    objects, tree = {}, manifest.build_tree(base)
    objects.update(tree.objects)
    now = base
    for _ in range(2):
        coming = data.draw(st.sampled_from([other, [e._replace(mode=0) for e in now[:1]]]))
        after = edited(now, coming)
        tree = patch_tree(tree.ranges, list(diff_entries(now, after)), partial(load_range, get=objects.__getitem__))
        objects.update(tree.shortest)
        now = list(apply_changes(now, list(diff_entries(now, after))))
        assert tree.root == manifest.build_tree(now).root
        assert [e for row in tree.ranges for e in load_range(row.range_id, objects.__getitem__)] == now


def test_what_few_files_change_is_stored_as_a_delta_and_the_next_one_has_the_same_base():
    objects, tree, bases = {}, manifest.build_tree(MANY), []
    objects.update(tree.objects)
    (whole,) = tree.objects.values()
    sizes = []
    for number in (3, 5):
        changes = [Change(MANY[number].path, MANY[number], file_entry(MANY[number].path, b"n" * 32))]
        tree = patch_tree(tree.ranges, changes, partial(load_range, get=objects.__getitem__))
        (delta,) = tree.deltas.values()
        bases.append(delta.base_id)
        sizes.append(len(delta.data))
        objects.update(tree.shortest)

    back = [Change(MANY[number].path, None, MANY[number]) for number in (3, 5)]
    tree = patch_tree(tree.ranges, back, partial(load_range, get=objects.__getitem__))
    assert (tree.objects, tree.deltas) == ({manifest.range_id(whole): whole}, {})
    assert bases == [manifest.range_id(whole)] * 2
    assert sizes[0] < sizes[1] < 400 < len(whole) // 80


def test_what_takes_more_than_a_quarter_of_the_range_is_stored_whole():
    after = [entry._replace(mtime_ns=9) if number % 3 else entry for number, entry in enumerate(MANY)]

    for base in (MANY, MANY[:700]):
        encoded = manifest.build_range(base)
        base_entries = entries_of(encoded.data)
        assert encode_short_delta(encoded.range_id, base_entries, after, manifest.encode_range(after)) is None


@pytest.mark.parametrize("depth", [MAX_DELTAS, MAX_DELTAS + 1])
def test_a_chain_of_deltas_is_followed_so_far_and_no_further(depth):
    """Writers make none, but objects that come late may: docs/decisions/0027."""
    versions = [
        [entry._replace(mode=number) if entry is MANY[0] else entry for entry in MANY] for number in range(depth + 1)
    ]
    objects = {}
    for before, after in pairwise(versions):
        objects = {**objects_of(before, after)[0], **objects}
    last = manifest.build_range(versions[-1]).range_id
    expected = (
        contextlib.nullcontext() if depth == MAX_DELTAS else pytest.raises(BadManifest, match="is a delta itself")
    )

    with expected:
        assert list(load_range(last, objects.__getitem__)) == versions[-1]


def test_deltas_that_are_based_on_each_other_are_refused():
    after = [MANY[0]._replace(mode=0), *MANY[1:]]
    there, base_id, range_id = objects_of(MANY, after)
    back, _, _ = objects_of(after, MANY)
    circle = {range_id: there[range_id], base_id: back[base_id]}

    for wanted in circle:
        with pytest.raises(BadManifest, match="is a delta itself"):
            load_range(wanted, circle.__getitem__)


def test_a_delta_on_another_base_than_its_own_has_another_id():
    after = [MANY[0]._replace(mode=0), *MANY[1:]]
    objects, base_id, range_id = objects_of(MANY, after)
    other = manifest.build_range(MANY[:-1])
    delta = objects[range_id].replace(bytes.fromhex(base_id), bytes.fromhex(other.range_id))

    with pytest.raises(BadManifest, match="not the range"):
        load_range(range_id, {range_id: delta, other.range_id: other.data}.__getitem__)


def test_a_delta_that_would_make_an_illegal_range_is_refused():
    """The name that it adds is sound, and makes a folder of a file of its base."""
    base = manifest.build_range([file_entry(b"a"), file_entry(b"b")])
    head = delta_of(MANY, MANY[1:])[:8]
    part = manifest.encode_range([file_entry(b"a/x")])
    data = head + bytes.fromhex(base.range_id) + bytes(4) + range_codec.write_column(b"", is_compressed=True) + part

    with pytest.raises(BadManifest, match="both a file and a folder"):
        load_range("00" * 32, {"00" * 32: data, base.range_id: base.data}.__getitem__)


def test_a_reader_that_knows_no_deltas_refuses_one_by_its_version():
    data = delta_of(MANY, MANY[1:])

    assert find_base(data) == manifest.build_range(MANY).range_id
    with pytest.raises(BadManifest, match=r"has format 2\.1\.0, which this version cannot read"):
        range_codec.read_range(data)
