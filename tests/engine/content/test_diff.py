"""Differences and merges read only what differs, and never lose either side's work."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearline.content import diff, manifest
from nearline.content.diff import Change, Conflict
from nearline.content.entries import EntryKind
from nearline.content.errors import BadManifest
from tests.engine.content.strategies import file_entry, trees


class Ranges:
    """The ranges of several trees, counting what is read."""

    def __init__(self, *built):
        self.objects = {key: data for tree in built for key, data in tree.objects.items()}
        self.loaded = []

    def load(self, range_id):
        self.loaded.append(range_id)
        return manifest.read_range(self.objects[range_id]).entries


def by_path(entries):
    return {entry.path: entry for entry in entries}


def edited(entry, edit):
    """The entry with another content (of the same size), mode or time; a link has its target's."""
    if edit == "time":
        return entry._replace(mtime_ns=entry.mtime_ns // 2)
    if edit == "mode" and entry.kind is EntryKind.FILE:
        return entry._replace(mode=entry.mode ^ 0o100)
    if edit == "content" and len(entry.blobs) == 1:
        other_id = entry.content_id[::-1]
        return entry._replace(content_id=other_id, blobs=(entry.blobs[0]._replace(content_id=other_id),))
    return entry


def edited_in_many(entry, edit):
    """A plain file with another content, mode or size, in two chunks, or gone."""
    blob = entry.blobs[0]
    if edit == "content":
        other_id = b"o" * 32
        return entry._replace(
            content_id=other_id, blobs=(blob._replace(content_id=other_id, pack=b"o" * 32, offset=9),)
        )
    if edit == "mode":
        return entry._replace(mode=entry.mode ^ 0o100, mtime_ns=-5)
    if edit == "size":
        return entry._replace(size=entry.size + 1, blobs=(blob._replace(size=entry.size + 1, pack=b"a" * 32),))
    if edit == "chunks":
        return entry._replace(size=2 * entry.size, blobs=(blob, blob))
    return None


def identities(entries):
    return {entry.path: entry.identity for entry in entries}


def file_tree(contents):
    return [file_entry(path, letter * 32) for path, letter in sorted(contents.items())]


MANY = [file_entry(b"%06d" % number) for number in range(12_000)]


@cache
def build_many() -> manifest.Tree:
    return manifest.build_tree(MANY)


# Trees over few names and contents, so that both sides often touch the same path.
SMALL = st.dictionaries(
    st.sampled_from([b"a", b"b", b"c", b"d", b"e/f", b"e/g"]), st.sampled_from([b"1", b"2", b"3"])
).map(file_tree)


@given(trees(), trees())
def test_a_diff_lists_exactly_what_differs(base, other):
    first, second = manifest.build_tree(base), manifest.build_tree(other)

    changes = list(diff.diff_roots(first.ranges, second.ranges, Ranges(first, second).load))

    before, after = by_path(base), by_path(other)
    expected = [
        Change(path, before.get(path), after.get(path))
        for path in sorted(before | after)
        if identities(base).get(path) != identities(other).get(path)
    ]
    assert changes == expected


@given(trees(), st.data())
def test_a_diff_of_trees_with_the_same_names_lists_exactly_what_differs(base, data):
    edits = data.draw(st.lists(st.sampled_from(["nothing", "content", "mode", "time"]), min_size=len(base)))
    other = [edited(entry, edit) for entry, edit in zip(base, edits, strict=False)]
    first, second = manifest.build_tree(base), manifest.build_tree(other)

    changes = list(diff.diff_roots(first.ranges, second.ranges, Ranges(first, second).load))

    assert changes == [
        Change(before.path, before, after)
        for before, after in zip(base, other, strict=True)
        if before.identity != after.identity
    ]


@settings(max_examples=8, deadline=None)
@given(st.sets(st.integers(0, 11_999)), st.sets(st.integers(0, 11_999)), st.sets(st.integers(0, 11_999)))
def test_a_diff_of_trees_with_many_ranges_lists_exactly_what_differs(removed, edited, cut_off):
    other = [
        entry._replace(mode=0o755) if number in edited else entry
        for number, entry in enumerate(MANY[: min(cut_off, default=12_000)])
        if number not in removed
    ]
    first, second = build_many(), manifest.build_tree(other)

    changes = list(diff.diff_roots(first.ranges, second.ranges, Ranges(first, second).load))

    assert changes == list(diff.diff_entries(MANY, other))


@given(trees(), trees())
def test_applying_a_diff_gives_the_other_tree(base, other):
    changes = diff.diff_entries(base, other)

    assert identities(diff.apply_changes(base, changes)) == identities(other)


def test_a_diff_reads_only_the_ranges_that_differ():
    paths = [b"%06d" % number for number in range(40_000)]
    base = manifest.build_tree(map(file_entry, paths))
    other = manifest.build_tree(file_entry(path, b"n" * 32 if path == b"020000" else b"c" * 32) for path in paths)
    ranges = Ranges(base, other)

    changes = list(diff.diff_roots(base.ranges, other.ranges, ranges.load))

    assert [change.path for change in changes] == [b"020000"]
    assert len(base.ranges) > 3
    assert len(ranges.loaded) == 2


@given(SMALL, SMALL, SMALL)
def test_a_merge_applies_their_work_keeps_ours_and_tells_the_rest(base, ours, theirs):
    result = diff.merge_changes(diff.diff_entries(base, ours), diff.diff_entries(base, theirs))

    merged = identities(diff.apply_changes(ours, result.changes))
    was, we, they = identities(base), identities(ours), identities(theirs)
    conflicts = {conflict.path for conflict in result.conflicts}
    for path in was | we | they:
        if we.get(path) == was.get(path):
            assert merged.get(path) == they.get(path)
        else:
            assert merged.get(path) == we.get(path)
        is_conflict = len({was.get(path), we.get(path), they.get(path)}) == 3
        assert (path in conflicts) == is_conflict


@given(SMALL, SMALL, SMALL)
def test_a_merge_finds_the_same_conflicts_from_either_side(base, ours, theirs):
    one = diff.merge_changes(diff.diff_entries(base, ours), diff.diff_entries(base, theirs))
    other = diff.merge_changes(diff.diff_entries(base, theirs), diff.diff_entries(base, ours))

    assert {c.path for c in one.conflicts} == {c.path for c in other.conflicts}


def test_a_file_against_a_folder_is_a_conflict_on_their_path():
    ours, theirs = [file_entry(b"a")], [file_entry(b"a/b"), file_entry(b"z")]

    result = diff.merge_changes(diff.diff_entries([], ours), diff.diff_entries([], theirs))

    assert result.conflicts == [Conflict(b"a/b", None, None, theirs[0])]
    assert [change.path for change in result.changes] == [b"z"]


@given(trees(), trees())
def test_a_patched_tree_is_the_tree_that_is_built_anew(base, other):
    tree = manifest.build_tree(base)
    changes = list(diff.diff_entries(base, other))

    patched = diff.patch_tree(tree.ranges, changes, Ranges(tree).load)

    assert patched.root == manifest.build_tree(diff.apply_changes(base, changes)).root


@settings(max_examples=25)
@given(st.sets(st.integers(0, 12_000), max_size=6), st.sets(st.integers(0, 12_000), max_size=3), st.integers(0, 3000))
def test_a_patched_tree_of_many_ranges_is_the_tree_that_is_built_anew(added, removed, cut_off):
    tree = build_many()
    changes = sorted(
        [Change(path, None, file_entry(path)) for path in (b"%06dx" % number for number in added)]
        + [Change(entry.path, entry, None) for entry in MANY if int(entry.path) in removed or int(entry.path) < cut_off]
    )
    ranges = Ranges(tree)

    patched = diff.patch_tree(tree.ranges, changes, ranges.load)

    anew = manifest.build_tree(diff.apply_changes(MANY, changes))
    assert patched.root == anew.root
    assert patched.objects.items() <= anew.objects.items()
    assert {row.range_id for row in patched.ranges} <= patched.objects.keys() | tree.objects.keys()


@pytest.mark.parametrize(
    "name", [b"%06dx", b"000000%06d", b"9%06d"], ids=["in all ranges", "in the first", "behind the last"]
)
def test_more_changes_than_a_range_has_files_may_come_one_by_one(name):
    tree = manifest.build_tree(MANY[:9000])
    changes = [Change(path, None, file_entry(path)) for path in (name % number for number in range(9100))]

    patched = diff.patch_tree(tree.ranges, iter(changes), Ranges(tree).load)

    assert [row.files for row in tree.ranges] == [4038, 3072, 1890]
    assert patched.root == manifest.build_tree(diff.apply_changes(MANY[:9000], changes)).root


@settings(max_examples=25)
@given(
    st.dictionaries(
        st.integers(0, len(MANY) - 1), st.sampled_from(["content", "mode", "size", "chunks", "gone"]), max_size=9
    ),
    st.sets(st.integers(0, 12_000), max_size=2),
)
def test_a_tree_with_edited_files_is_the_tree_that_is_built_anew(edits, added):
    tree = build_many()
    changes = [
        Change(MANY[index].path, MANY[index], edited_in_many(MANY[index], edit)) for index, edit in edits.items()
    ]
    changes = sorted(
        [*changes, *(Change(path, None, file_entry(path)) for path in (b"%06dx" % each for each in added))]
    )

    patched = diff.patch_tree(tree.ranges, changes, Ranges(tree).load)

    anew = manifest.build_tree(diff.apply_changes(MANY, changes))
    assert patched.root == anew.root
    assert {name: anew.objects[name] for name in patched.objects} == patched.objects


def test_a_file_that_no_range_may_list_is_refused_among_plain_files():
    tree = build_many()
    unsound = MANY[7]._replace(size=11)

    with pytest.raises(BadManifest):
        diff.patch_tree(tree.ranges, [Change(MANY[7].path, MANY[7], unsound)], Ranges(tree).load)


def test_plain_files_make_a_whole_range_where_the_cutter_cuts():
    ranges = list(manifest.split_ranges(MANY))
    paths = [[entry.path for entry in entries] for entries in ranges]

    assert len(ranges) > 2
    assert all(manifest.is_whole_range(each, is_last=False) for each in paths[:-1])
    assert not any(manifest.is_whole_range(each[:-1], is_last=False) for each in paths[:-1])
    assert manifest.is_whole_range(paths[-1], is_last=True)


def test_one_changed_file_of_many_reads_and_writes_one_range():
    tree = manifest.build_tree(map(file_entry, (b"%06d" % number for number in range(40_000))))
    ranges = Ranges(tree)
    changed = file_entry(b"020000", b"n" * 32)

    patched = diff.patch_tree(tree.ranges, [Change(b"020000", file_entry(b"020000"), changed)], ranges.load)

    assert len(ranges.loaded) == 1
    assert len(patched.objects) == 1
