"""Files removed and renamed from the pages, each as one commit."""

import pytest

from accounts.errors import PermissionDenied
from core.errors import InvalidInput
from datasets.errors import FileNotInCommit, StaleParent
from datasets.models import Commit, Pack
from datasets.selectors.trees import TreeReader
from datasets.services import tree_edits
from tests.factories.datasets import commit_files

FILES = {"a.txt": b"a", "train/1.png": b"one", "train/2.png": b"two", "train-notes.txt": b"notes", "z.txt": b"z"}


def names(commit: Commit) -> list[str]:
    return [entry.path.decode() for entry in TreeReader(commit.dataset).list_entries(commit.root)]


@pytest.fixture
def first(member, dataset) -> Commit:
    return commit_files(member, dataset, FILES)


def test_a_folder_is_removed_with_all_that_is_in_it(member, dataset, first):
    made = tree_edits.remove_paths(
        actor=member, dataset=dataset, branch="main", paths=[b"train"], expected_head=first.id
    )

    assert names(made) == ["a.txt", "train-notes.txt", "z.txt"]
    assert (made.message, made.source, made.removed, made.parent_id) == ("Remove train", "web", 2, first.id)


def test_the_last_file_can_go(member, dataset):
    first = commit_files(member, dataset, {"a.txt": b"a"})

    made = tree_edits.remove_paths(
        actor=member, dataset=dataset, branch="main", paths=[b"a.txt"], expected_head=first.id
    )

    assert (made.files, made.size_bytes) == (0, 0)


def test_a_folder_gets_another_name_and_no_byte_moves(member, dataset, first):
    packs = Pack.objects.count()

    made = tree_edits.rename_path(
        actor=member, dataset=dataset, branch="main", path=b"train", to=b"images/train", expected_head=first.id
    )

    assert names(made) == ["a.txt", "images/train/1.png", "images/train/2.png", "train-notes.txt", "z.txt"]
    assert Pack.objects.count() == packs


@pytest.mark.parametrize("to", [b"z.txt", b"train", b"a.txt", b"a.txt/b", b"../a", b"", b".nearline"])
def test_a_name_that_is_taken_or_cannot_be_carried_is_refused(member, dataset, first, to):
    with pytest.raises(InvalidInput):
        tree_edits.rename_path(
            actor=member, dataset=dataset, branch="main", path=b"a.txt", to=to, expected_head=first.id
        )

    assert Commit.objects.count() == 1


def test_what_is_not_there_cannot_be_removed(member, dataset, first):
    with pytest.raises(FileNotInCommit):
        tree_edits.remove_paths(actor=member, dataset=dataset, branch="main", paths=[b"x"], expected_head=first.id)

    assert Commit.objects.count() == 1


def test_what_is_not_there_cannot_be_moved_onto_something(member, dataset, first):
    with pytest.raises(FileNotInCommit, match=r"no 'x'"):
        tree_edits.rename_path(
            actor=member, dataset=dataset, branch="main", path=b"x", to=b"a.txt", expected_head=first.id
        )

    assert Commit.objects.count() == 1


def test_an_edit_of_a_page_that_is_old_is_refused(member, dataset, first):
    second = commit_files(member, dataset, {**FILES, "more.txt": b"more"})

    with pytest.raises(StaleParent) as refusal:
        tree_edits.remove_paths(actor=member, dataset=dataset, branch="main", paths=[b"a.txt"], expected_head=first.id)

    assert (refusal.value.details["head"], Commit.objects.count()) == (second.id, 2)


def test_a_viewer_edits_nothing(viewer, dataset, first):
    with pytest.raises(PermissionDenied):
        tree_edits.remove_paths(actor=viewer, dataset=dataset, branch="main", paths=[b"a.txt"], expected_head=first.id)

    assert Commit.objects.count() == 1
