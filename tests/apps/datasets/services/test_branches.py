"""Branches and tags: one name, one thing."""

import pytest

from accounts.errors import PermissionDenied
from datasets.errors import DefaultBranchKept, InvalidLabel, NameTaken, ReferenceNotFound
from datasets.models import Branch, Dataset, Tag
from datasets.services import branches, datasets
from tests.factories.datasets import commit_files


@pytest.fixture
def commit(dataset, member):
    return commit_files(member, dataset, {"a": b"1"})


def test_a_branch_begins_where_it_is_told(dataset, member, commit):
    branches.create_tag(actor=member, dataset=dataset, name="v1", commit=commit)

    made = [
        branches.create_branch(actor=member, dataset=dataset, name=f"b{number}", at=at)
        for number, at in enumerate(["main", "v1", "latest", commit.id, commit.id[:6]])
    ]

    assert {branch.head_id for branch in made} == {commit.id}


def test_at_an_empty_branch_a_branch_is_empty(dataset, member):
    branch = branches.create_branch(actor=member, dataset=dataset, name="trial", at="main")

    assert branch.head_id is None


def test_at_something_unknown_no_branch_is_made(dataset, member):
    with pytest.raises(ReferenceNotFound):
        branches.create_branch(actor=member, dataset=dataset, name="trial", at="none")

    assert Branch.objects.count() == 1


@pytest.mark.parametrize("name", ["main", "v1"])
def test_a_taken_name_is_refused_for_both(dataset, member, commit, name):
    branches.create_tag(actor=member, dataset=dataset, name="v1", commit=commit)

    with pytest.raises(NameTaken):
        branches.create_branch(actor=member, dataset=dataset, name=name, at="main")
    with pytest.raises(NameTaken):
        branches.create_tag(actor=member, dataset=dataset, name=name, commit=commit)

    assert (Branch.objects.count(), Tag.objects.count()) == (1, 1)


def test_a_name_that_hides_a_commit_is_refused(dataset, member, commit):
    with pytest.raises(NameTaken):
        branches.create_tag(actor=member, dataset=dataset, name=commit.short, commit=commit)
    branches.create_tag(actor=member, dataset=dataset, name="20261127", commit=commit)

    assert [tag.name for tag in Tag.objects.all()] == ["20261127"]


@pytest.mark.parametrize("name", ["latest", "a/b", "", "0" * 64])
def test_an_impossible_name_is_refused(dataset, member, commit, name):
    with pytest.raises(InvalidLabel):
        branches.create_branch(actor=member, dataset=dataset, name=name, at="main")
    with pytest.raises(InvalidLabel):
        branches.create_tag(actor=member, dataset=dataset, name=name, commit=commit)

    assert (Branch.objects.count(), Tag.objects.count()) == (1, 0)


def test_deleting_names_leaves_commits(dataset, member, commit):
    branches.create_branch(actor=member, dataset=dataset, name="trial", at="main")
    branches.create_tag(actor=member, dataset=dataset, name="v1", commit=commit)

    branches.delete_branch(actor=member, dataset=dataset, name="trial")
    branches.delete_tag(actor=member, dataset=dataset, name="v1")

    assert [branch.name for branch in dataset.branches.all()] == ["main"]
    assert not dataset.tags.exists()
    assert dataset.commits.count() == 1


def test_the_default_branch_stays(dataset, member):
    with pytest.raises(DefaultBranchKept):
        branches.delete_branch(actor=member, dataset=dataset, name="main")

    assert dataset.branches.count() == 1


def test_a_branch_that_became_the_default_one_since_it_was_shown_stays(dataset, member):
    branches.create_branch(actor=member, dataset=dataset, name="trial", at="main")
    shown = Dataset.objects.get(pk=dataset.pk)
    datasets.update_dataset(actor=member, dataset=dataset, changes={"default_branch": "trial"})

    with pytest.raises(DefaultBranchKept):
        branches.delete_branch(actor=member, dataset=shown, name="trial")


def test_what_is_not_there_cannot_be_deleted(dataset, member):
    with pytest.raises(ReferenceNotFound):
        branches.delete_branch(actor=member, dataset=dataset, name="none")
    with pytest.raises(ReferenceNotFound):
        branches.delete_tag(actor=member, dataset=dataset, name="none")


def test_viewers_change_no_names(dataset, member, viewer, commit):
    branches.create_branch(actor=member, dataset=dataset, name="trial", at="main")
    branches.create_tag(actor=member, dataset=dataset, name="v1", commit=commit)

    for refused in (
        lambda: branches.create_branch(actor=viewer, dataset=dataset, name="x", at="main"),
        lambda: branches.create_tag(actor=viewer, dataset=dataset, name="x", commit=commit),
        lambda: branches.delete_branch(actor=viewer, dataset=dataset, name="trial"),
        lambda: branches.delete_tag(actor=viewer, dataset=dataset, name="v1"),
    ):
        with pytest.raises(PermissionDenied):
            refused()

    assert (Branch.objects.count(), Tag.objects.count()) == (2, 1)
