"""Which commit changed the rows of a listing last."""

import pytest

from accounts.errors import ProjectNotFound
from datasets.selectors import files, last_changes
from datasets.selectors.last_changes import find_last_changes
from datasets.services import commits
from tests.factories.datasets import commit_files


@pytest.fixture(autouse=True)
def _nothing_kept():
    last_changes.forget()


@pytest.fixture
def history(dataset, member):
    trees = [
        {"a.txt": b"1", "b/x.txt": b"1", "b/y.txt": b"1"},
        {"a.txt": b"1", "b/x.txt": b"2", "b/y.txt": b"1"},
        {"a.txt": b"1", "b/x.txt": b"2", "b/y.txt": b"1", "c.txt": b"1"},
        {"a.txt": b"3", "b/x.txt": b"2", "c.txt": b"1"},
    ]
    return [commit_files(member, dataset, tree, message=f"number {index}") for index, tree in enumerate(trees)]


def told(member, commit, path=b""):
    items = files.list_folder(member, commit, path=path, cursor=None, limit=10).items
    found = find_last_changes(member, commit, items)
    return {path: change and (change.short, change.message) for path, change in found.items()}


def test_each_row_names_the_commit_that_changed_it_last(history, member):
    said = [(commit.short, commit.message) for commit in history]

    assert told(member, history[3]) == {b"a.txt": said[3], b"b": said[3], b"c.txt": said[2]}
    assert told(member, history[2]) == {b"a.txt": said[0], b"b": said[1], b"c.txt": said[2]}
    assert told(member, history[2], b"b") == {b"b/x.txt": said[1], b"b/y.txt": said[0]}


def test_going_back_to_an_old_version_changes_what_it_changes(history, dataset, member):
    reverted = commits.revert(actor=member, dataset=dataset, commit=history[0], branch_name="main")
    back = (reverted.short, reverted.message)

    assert told(member, reverted) == {b"a.txt": back, b"b": back}


def test_a_new_commit_asks_only_about_itself(history, dataset, member, monkeypatch):
    told(member, history[3])
    newest = commit_files(member, dataset, {"a.txt": b"3", "b/x.txt": b"2", "c.txt": b"4"}, message="newest")
    monkeypatch.setattr(last_changes, "_RANGES", 2)  # those of the two newest trees

    assert told(member, newest) == {
        b"a.txt": (history[3].short, "number 3"),
        b"b": (history[3].short, "number 3"),
        b"c.txt": (newest.short, "newest"),
    }


@pytest.mark.parametrize(("bound", "value"), [("_COMMITS", 1), ("_RANGES", 1)])
def test_what_lies_too_far_back_is_unknown(history, member, monkeypatch, bound, value):
    monkeypatch.setattr(last_changes, bound, value)

    assert told(member, history[2])[b"a.txt"] is None


def test_a_stranger_learns_nothing(history, make_actor):
    with pytest.raises(ProjectNotFound):
        find_last_changes(make_actor(None), history[3], [])
