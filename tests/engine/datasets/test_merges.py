"""The commit that two branches have in common, and what the choice between two versions of a file does."""

import pytest

from datasets.engine.merges import Resolution, find_merge_base, resolve
from nearline.content.diff import diff_entries, merge_changes
from nearline.content.hashing import file_id
from nearline.content.manifest import Entry


def tree(**files: str) -> list[Entry]:
    paths = {name.replace("__", "/").encode(): content.encode() for name, content in files.items()}
    return [Entry(path, 0o644, len(paths[path]), 0, file_id(paths[path])) for path in sorted(paths)]


def merged(base, ours, theirs, choice) -> dict[str, str]:
    our_changes = list(diff_entries(base, ours))
    found = merge_changes(our_changes, diff_entries(base, theirs))
    taken = {entry.path for entry in ours}
    taken |= {path[:index] for path in taken for index, byte in enumerate(path) if byte == ord("/")}
    result = {entry.path: entry for entry in ours}
    for change in resolve(our_changes, found, lambda _: Resolution(choice), taken.__contains__):
        assert result.get(change.path) == change.before
        result.pop(change.path, None)
        if change.after is not None:
            result[change.path] = change.after
    names = {entry.content_id: text for text in ["base", "ours", "theirs", "other"] for entry in tree(x=text)}
    return {path.decode(): names[entry.content_id] for path, entry in sorted(result.items())}


@pytest.mark.parametrize(
    ("parents", "base"),
    [
        ({"a": [], "b": ["a"], "c": ["a"]}, "a"),
        ({"a": [], "b": ["a"], "c": ["b"]}, "b"),
        ({"b": [], "c": []}, None),
        # `c` was merged into `b` before: what it had then is in common.
        ({"a": [], "x": ["a"], "y": ["a"], "b": ["x", "y"], "c": ["y"]}, "y"),
        # Each was merged into the other: two would do, and the newer one is taken.
        ({"a": [], "x": ["a"], "y": ["a"], "b": ["x", "y"], "c": ["y", "x"]}, "y"),
    ],
)
def test_the_newest_common_commit_is_the_base(parents, base):
    assert find_merge_base(parents, "b", "c") == base


@pytest.mark.parametrize(
    ("choice", "result"),
    [
        ("ours", {"a": "ours", "n": "other"}),
        ("theirs", {"a": "theirs", "n": "other"}),
        ("both", {"a": "ours", "a.conflict": "theirs", "n": "other"}),
    ],
)
def test_a_file_that_both_changed_is_decided_and_all_else_comes(choice, result):
    assert merged(tree(a="base"), tree(a="ours"), tree(a="theirs", n="other"), choice) == result


@pytest.mark.parametrize(
    ("choice", "result"),
    [("ours", {}), ("theirs", {"a": "theirs"}), ("both", {"a.conflict": "theirs"})],
)
def test_a_file_that_we_deleted_and_they_changed(choice, result):
    assert merged(tree(a="base"), [], tree(a="theirs"), choice) == result


@pytest.mark.parametrize(("choice", "result"), [("ours", {"a": "ours"}), ("theirs", {}), ("both", {"a": "ours"})])
def test_a_file_that_we_changed_and_they_deleted(choice, result):
    assert merged(tree(a="base"), tree(a="ours"), [], choice) == result


@pytest.mark.parametrize(
    ("choice", "result"),
    [
        ("ours", {"a": "ours"}),
        ("theirs", {"a/x": "theirs", "a/y": "other"}),
        ("both", {"a": "ours", "a.conflict/x": "theirs", "a.conflict/y": "other"}),
    ],
)
def test_our_file_where_theirs_needs_a_folder(choice, result):
    assert merged([], tree(a="ours"), tree(a__x="theirs", a__y="other"), choice) == result


@pytest.mark.parametrize(
    ("choice", "result"),
    [
        ("ours", {"a/x": "ours", "a/y": "ours"}),
        ("theirs", {"a": "theirs"}),
        ("both", {"a.conflict": "theirs", "a/x": "ours", "a/y": "ours"}),
    ],
)
def test_their_file_where_ours_needs_a_folder(choice, result):
    assert merged([], tree(a__x="ours", a__y="ours"), tree(a="theirs"), choice) == result


def test_a_name_that_is_taken_is_not_overwritten():
    ours = tree(a="ours") + tree(**{"a.conflict": "other"})

    assert merged(tree(a="base"), ours, tree(a="theirs"), "both") == {
        "a": "ours", "a.conflict": "other", "a.conflict-2": "theirs",
    }  # fmt: skip
