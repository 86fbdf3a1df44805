"""What references mean, and the line of history behind them."""

import pytest

from accounts.errors import ProjectNotFound
from datasets.errors import AmbiguousReference, EmptyBranch, InvalidReference, ReferenceNotFound
from datasets.models import Commit
from datasets.selectors import commits, datasets
from datasets.services import branches
from tests.factories.datasets import commit_files, make_dataset


@pytest.fixture
def line(dataset, member):
    return [commit_files(member, dataset, {"a": str(number).encode()}) for number in range(5)]


def collect(actor, dataset, ref="latest", limit=2):
    found, cursor = [], None
    while True:
        page = commits.list_commits(actor, dataset, ref=ref, cursor=cursor, limit=limit)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return found


def test_history_comes_newest_first_page_by_page(dataset, member, line):
    assert collect(member, dataset) == list(reversed(line))


def test_history_follows_the_reference_and_no_other_branch(dataset, member, line):
    branches.create_branch(actor=member, dataset=dataset, name="trial", at=line[1].id)
    side = commit_files(member, dataset, {"side": b""}, branch="trial")

    assert collect(member, dataset, "trial") == [side, line[1], line[0]]
    assert collect(member, dataset, line[2].id) == [line[2], line[1], line[0]]


def test_an_empty_branch_has_no_history(dataset, member):
    assert collect(member, dataset) == []


def test_history_of_another_dataset_cannot_be_reached_by_a_cursor(dataset, member, project, line):
    other = make_dataset(member, project)
    foreign = commits.list_commits(member, dataset, ref="latest", cursor=None, limit=1).next_cursor

    assert commits.list_commits(member, other, ref="latest", cursor=foreign, limit=5).items == []


def test_a_page_of_history_takes_few_queries(dataset, member, line, django_assert_num_queries):
    with django_assert_num_queries(6):
        page = commits.list_commits(member, dataset, ref="main", cursor=None, limit=5)
        commits.view_commits(page.items)


def test_every_kind_of_reference_is_understood(dataset, member, line):
    branches.create_tag(actor=member, dataset=dataset, name="v1", commit=line[1])

    found = [commits.get_commit(member, dataset, ref) for ref in ("main", "latest", "v1", line[3].id, line[3].id[:6])]

    assert found == [line[4], line[4], line[1], line[3], line[3]]


@pytest.mark.parametrize("ref", ["none", "ffffffffff", "0" * 64, "", "abc"])
def test_what_names_nothing_is_said(dataset, member, ref):
    with pytest.raises(ReferenceNotFound):
        commits.get_commit(member, dataset, ref)


def test_an_empty_branch_is_said(dataset, member):
    with pytest.raises(EmptyBranch):
        commits.get_commit(member, dataset, "latest")


def test_a_beginning_that_fits_two_commits_is_refused(dataset, member, line):
    for number in (1, 2):
        Commit.objects.create(
            id=f"abcdef{number}".ljust(64, "0"),
            dataset=dataset,
            root="",
            author_name="",
            source="cli",
            files=0,
            size_bytes=0,
            added=0,
            removed=0,
            changed=0,
        )

    with pytest.raises(AmbiguousReference):
        commits.get_commit(member, dataset, "abcdef")
    assert commits.get_commit(member, dataset, "abcdef1").id.startswith("abcdef1")


def test_commits_of_other_datasets_are_not_found(dataset, member, project, line):
    other = make_dataset(member, project)

    with pytest.raises(ReferenceNotFound):
        commits.get_commit(member, other, line[0].id)


def test_a_full_reference_leads_to_dataset_and_commit(dataset, member, line):
    found = datasets.resolve(member, "team-a/xrays@main")

    assert (found.dataset, found.commit) == (dataset, line[4])
    with pytest.raises(InvalidReference):
        datasets.resolve(member, "xrays")


def test_a_view_names_branches_and_tags(dataset, member, line):
    branches.create_tag(actor=member, dataset=dataset, name="v1", commit=line[4])
    branches.create_branch(actor=member, dataset=dataset, name="also", at="main")

    newest, before = commits.view_commits([line[4], line[3]])

    assert (newest.branches, newest.tags, newest.cached) == (["also", "main"], ["v1"], [])
    assert (before.branches, before.tags) == ([], [])


def test_a_stranger_reads_no_history(dataset, make_actor, line):
    stranger = make_actor(None)

    with pytest.raises(ProjectNotFound):
        commits.get_commit(stranger, dataset, "main")
    with pytest.raises(ProjectNotFound):
        commits.list_commits(stranger, dataset, ref="main", cursor=None, limit=5)
    with pytest.raises(ProjectNotFound):
        commits.list_branches(stranger, dataset)
    with pytest.raises(ProjectNotFound):
        commits.list_tags(stranger, dataset)


def test_listing_datasets_takes_few_queries(store_row, member, project, django_assert_num_queries):
    for _ in range(5):
        commit_files(member, make_dataset(member, project), {"a": b"1"})

    with django_assert_num_queries(2):
        rows = list(datasets.list_datasets(actor=member))
        assert [datasets.newest_commit_of(row).files for row in rows] == [1] * 5


def test_datasets_are_found_by_project_and_text(dataset, member, project):
    make_dataset(member, project, "cats")

    assert [row.name for row in datasets.list_datasets(actor=member, text="RAY")] == ["xrays"]
    assert [row.name for row in datasets.list_datasets(actor=member, project="team-a")] == ["cats", "xrays"]
    with pytest.raises(ProjectNotFound):
        datasets.list_datasets(actor=member, project="team-b")
