"""Lookups in a tree: the same as over the list of all paths, at the cost of few ranges."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from nearline.content.entries import Entry
from nearline.content.hashing import EMPTY_ID
from nearline.content.manifest import build_range, check_range, describe_range, load_range
from nearline.reading.tree import Child, TreeFiles

NAMES = st.lists(st.sampled_from(["a", "b", "a0", "a!", "ab", "z"]), min_size=1, max_size=4).map("/".join)


def tree_of(paths, cuts=()) -> tuple[TreeFiles, list[str]]:
    """Make a tree whose ranges end before these positions; and a list of the ranges that are read."""
    entries = [Entry(path.encode(), 0o644, 0, 0, EMPTY_ID) for path in sorted(paths)]
    edges = [0, *sorted(cut for cut in set(cuts) if 0 < cut < len(entries)), len(entries)]
    parts = [entries[start:end] for start, end in pairwise(edges) if start < end]
    encoded = {build_range(part).range_id: build_range(part).data for part in parts}
    rows = [describe_range(part, build_range(part).range_id) for part in parts]
    by_id = {row.range_id: row for row in rows}
    read = []

    def load(range_id):
        read.append(range_id)
        return check_range(by_id[range_id], load_range(range_id, encoded.__getitem__))

    return TreeFiles(rows, load), read


def whole(paths) -> set[str]:
    """Leave out paths that are a folder of others."""
    return {path for path in paths if not any(other.startswith(f"{path}/") for other in paths)}


def expected(paths, folder) -> list[tuple[str, bool]]:
    prefix = f"{folder}/" if folder else ""
    rests = [path[len(prefix) :] for path in paths if path.startswith(prefix)]
    return sorted({(rest.partition("/")[0], "/" not in rest) for rest in rests}, key=lambda each: each[0])


@given(st.sets(NAMES, max_size=20).map(whole), st.lists(st.integers(1, 19)), NAMES)
def test_folders_are_listed_and_files_found_as_over_all_paths(paths, cuts, other):
    tree, _ = tree_of(paths, cuts)

    folders = {"", other, *(path.rpartition("/")[0] for path in paths)}
    for folder in folders:
        found = [(child.name.decode(), child.entry is not None) for child in tree.list_folder(folder.encode())]
        assert sorted(found) == expected(paths, folder)
        assert len(found) == len(set(found))
    for path in {*paths, other}:
        assert (tree.find(path.encode()) is not None) == (path in paths)


def test_a_folder_is_listed_without_reading_what_lies_deeper():
    paths = [f"{folder}/{number:02}" for folder in ("a", "b", "c") for number in range(30)]
    tree, read = tree_of(paths, range(10, 90, 10))

    assert list(tree.list_folder(b"")) == [Child(name, None) for name in (b"a", b"b", b"c")]
    assert read == []
    assert [child.name for child in tree.list_folder(b"b")] == [b"%02d" % number for number in range(30)]
    assert len(read) == 3
