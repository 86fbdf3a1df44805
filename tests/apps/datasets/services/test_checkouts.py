"""A private copy is there whole or not at all."""

import pytest

from datasets.adapters.opening import open_dataset_store
from datasets.engine.layout import pack_key
from datasets.errors import BlobMissing, ReferenceNotFound, TargetNotEmpty
from datasets.workers.checkouts import write_tree
from tests.factories.datasets import commit_files, read_tree

FILES = {"a.txt": b"one", "b/c.txt": b"two", "b/link": "c.txt"}


@pytest.fixture
def commit(dataset, member):
    return commit_files(member, dataset, FILES)


def test_a_copy_is_the_tree_and_can_be_written(commit, tmp_path):
    seen = []

    done = write_tree(commit.id, tmp_path / "copy", seen.append)

    assert read_tree(tmp_path / "copy") == FILES
    assert done.files == 3
    assert seen
    (tmp_path / "copy/b/c.txt").write_bytes(b"mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "store"]


def test_nothing_shows_of_a_copy_that_failed(commit, dataset, tmp_path):
    store = open_dataset_store(dataset)
    store.delete([pack_key(pack.sha256) for pack in dataset.packs.all()])

    with pytest.raises(BlobMissing):
        write_tree(commit.id, tmp_path / "copy")

    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_what_a_killed_copy_left_is_removed(commit, tmp_path):
    (tmp_path / ".copy.partial").mkdir()
    (tmp_path / ".copy.partial" / "a.txt").write_bytes(b"half")

    write_tree(commit.id, tmp_path / "copy")

    assert read_tree(tmp_path / "copy") == FILES


def test_nothing_is_overwritten(commit, tmp_path):
    (tmp_path / "copy").mkdir()

    with pytest.raises(TargetNotEmpty):
        write_tree(commit.id, tmp_path / "copy")

    assert list((tmp_path / "copy").iterdir()) == []


@pytest.mark.django_db
def test_an_unknown_commit_is_named(tmp_path):
    with pytest.raises(ReferenceNotFound):
        write_tree("0" * 64, tmp_path / "copy")


def test_an_empty_tree_is_an_empty_folder(dataset, member, tmp_path):
    commit = commit_files(member, dataset, {})

    write_tree(commit.id, tmp_path / "copy")

    assert list((tmp_path / "copy").iterdir()) == []
