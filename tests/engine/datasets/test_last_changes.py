"""Which paths a commit changed, as a plain comparison of two trees would say it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.engine.last_changes import BoundedLoad, OutOfBudget, Step, find_changed
from nearline.content.hashing import file_id
from nearline.content.manifest import Entry, RootRange

name = st.sampled_from([b"a", b"b", b"a.txt", b"a b", b"z\xff"])
trees = st.dictionaries(
    st.lists(name, min_size=1, max_size=3).map(b"/".join), st.sampled_from([b"1", b"2"]), max_size=30
)


def make_root(files, ranges, per_range):
    entries = [Entry(path, 0o644, 1, 0, file_id(content)) for path, content in sorted(files.items())]
    root = []
    for start in range(0, len(entries), per_range):
        piece = entries[start : start + per_range]
        range_id = repr(piece)
        ranges[range_id] = piece
        root.append(RootRange(piece[0].path, piece[-1].path, len(piece), len(piece), range_id))
    return root


@given(trees, trees, st.integers(1, 4))
@settings(max_examples=300)
def test_a_path_is_changed_when_anything_at_or_below_it_differs(before, after, per_range):
    ranges = {}
    step = Step("commit", make_root(after, ranges, per_range), make_root(before, ranges, per_range))
    folders = {
        path[: path.index(b"/", start) + 1] for path in after for start in range(len(path)) if path[start:].count(b"/")
    }
    asked = {*after, *folders}

    def state(files, path):
        if path.endswith(b"/"):
            return {found: content for found, content in files.items() if found.startswith(path)}
        return files.get(path)

    assert find_changed(asked, step, ranges.__getitem__) == {
        path for path in asked if state(before, path) != state(after, path)
    }


def test_ranges_that_both_trees_have_are_not_read():
    ranges = {}
    files = {b"%03d" % number: b"1" for number in range(100)}
    root = make_root(files, ranges, 10)
    edited = make_root({**files, b"055": b"2"}, ranges, 10)
    read = []

    def load(range_id):
        read.append(range_id)
        return ranges[range_id]

    assert find_changed({b"001", b"055", b"056"}, Step("commit", edited, root), load) == {b"055"}
    assert set(read) == {root[5].range_id, edited[5].range_id}


def test_the_budget_counts_every_range_once():
    load = BoundedLoad({"a": [], "b": [], "c": []}.__getitem__, budget=2)

    assert [load(range_id) for range_id in ("a", "b", "a")] == [[], [], []]
    with pytest.raises(OutOfBudget):
        load("c")
