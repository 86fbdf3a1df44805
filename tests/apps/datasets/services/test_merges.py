"""A branch merged into another one: one commit with two parents, and nothing at all while a choice is missing."""

import pytest

from core.errors import InvalidInput
from datasets.adapters.opening import open_dataset_store
from datasets.engine.layout import CommitRecord, commit_key
from datasets.engine.merges import Resolution
from datasets.errors import MergeConflicts, MergeTooLarge, NothingToMerge, StaleParent
from datasets.models import Branch, Commit, Pack
from datasets.selectors import merges as plans
from datasets.selectors.trees import Kept, TreeReader
from datasets.services import branches, merges
from nearline.content.hashing import file_id
from tests.factories.datasets import commit_files

BASE = {"a.txt": b"1", "both.txt": b"1", "gone.txt": b"1", "odd\udcff\n.bin": b"1"}

THEIRS = {"a.txt": b"1", "both.txt": b"theirs", "new.txt": b"theirs", "odd\udcff\n.bin": b"theirs"}


@pytest.fixture
def side(member, dataset) -> Commit:
    """A branch `side` and `main`, with a file that both changed; on `side` one more was added and one removed."""
    first = commit_files(member, dataset, BASE)
    branches.create_branch(actor=member, dataset=dataset, name="side", at=first.pk)
    commit_files(member, dataset, BASE | {"a.txt": b"ours", "both.txt": b"ours", "odd\udcff\n.bin": b"ours"})
    return commit_files(member, dataset, THEIRS, branch="side")


def head(dataset, name="main") -> Commit:
    commit = Branch.objects.get(dataset=dataset, name=name).head
    assert commit is not None
    return commit


def content(commit: Commit) -> dict[bytes, bytes]:
    return {entry.path: entry.content_id for entry in TreeReader(commit.dataset).list_entries(commit.root)}


def test_both_sides_come_together_in_one_commit_and_no_content_moves(member, dataset, side):
    ours, packs = head(dataset), Pack.objects.count()

    made = merges.merge(
        actor=member,
        dataset=dataset,
        source="side",
        into="main",
        choices={b"both.txt": Resolution.THEIRS},
        otherwise=Resolution.BOTH,
    )

    assert (head(dataset), made.parent, made.merged, made.source) == (made, ours, side, "merge")
    assert (made.message, made.added, made.removed, made.changed) == ("Merge side into main", 2, 1, 1)
    assert content(made) == {
        b"a.txt": file_id(b"ours"),
        b"both.txt": file_id(b"theirs"),
        b"new.txt": file_id(b"theirs"),
        b"odd\xff\n.bin": file_id(b"ours"),
        b"odd\xff\n.bin.conflict": file_id(b"theirs"),
    }
    assert Pack.objects.count() == packs
    record = CommitRecord.read(open_dataset_store(dataset).get(commit_key(made.pk)), made.pk)
    assert record.parents == [ours.pk, side.pk]


def test_what_was_merged_once_is_in_common(member, dataset, side):
    merges.merge(actor=member, dataset=dataset, source="side", into="main", otherwise=Resolution.OURS)
    again = commit_files(member, dataset, THEIRS | {"new.txt": b"newer"}, branch="side")

    plan = plans.plan_merge(member, again, head(dataset))

    assert (plan.base, plan.conflicts) == (side, [])
    assert [change.path for change in plan.merged.changes] == [b"new.txt"]


def test_more_changes_than_are_compared_at_once_are_refused(member, dataset, side, monkeypatch):
    ours = head(dataset)
    monkeypatch.setattr(plans, "_plans", Kept(100))

    monkeypatch.setattr(plans, "_MOST_CHANGES", 6)  # of the three of ours and the four of theirs
    with pytest.raises(MergeTooLarge, match="Both sides together changed more than 6 files"):
        plans.plan_merge(member, side, ours)
    with pytest.raises(MergeTooLarge):
        merges.merge(actor=member, dataset=dataset, source="side", into="main", otherwise=Resolution.OURS)
    assert head(dataset) == ours

    monkeypatch.setattr(plans, "_MOST_CHANGES", 7)
    assert len(plans.plan_merge(member, side, ours).our_changes) == 3


def test_a_branch_that_did_nothing_since_becomes_the_other(member, dataset, side):
    first = side.parent
    branches.create_branch(actor=member, dataset=dataset, name="late", at=first.pk)

    made = merges.merge(actor=member, dataset=dataset, source="side", into="late")

    assert (made.root, made.parent, made.merged) == (side.root, first, side)
    with pytest.raises(NothingToMerge):
        merges.merge(actor=member, dataset=dataset, source="side", into="late")


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        ({}, MergeConflicts),
        ({"choices": {b"both.txt": Resolution.OURS}}, MergeConflicts),
        ({"choices": {b"a.txt": Resolution.OURS}, "otherwise": Resolution.OURS}, InvalidInput),
        ({"expected_head": "0" * 64, "otherwise": Resolution.OURS}, StaleParent),
        ({"expected_source": "0" * 64, "otherwise": Resolution.OURS}, StaleParent),
    ],
)
def test_nothing_is_merged_while_a_choice_is_missing_or_a_side_has_moved(member, dataset, side, wish, error):
    before = head(dataset)

    with pytest.raises(error):
        merges.merge(actor=member, dataset=dataset, source="side", into="main", **wish)

    assert head(dataset) == before


def test_the_files_that_both_changed_are_named(member, dataset, side):
    with pytest.raises(MergeConflicts) as refused:
        merges.merge(actor=member, dataset=dataset, source="side", into="main")

    assert refused.value.details == {"paths": ["both.txt", "odd\\xff\n.bin"], "total": 2}


def test_branches_without_a_common_commit_are_merged_too(member, dataset, side):
    Branch.objects.create(dataset=dataset, name="apart")
    apart = commit_files(member, dataset, {"z.txt": b"z"}, branch="apart")

    made = merges.merge(actor=member, dataset=dataset, source="apart", into="side")

    assert made.merged == apart
    assert list(content(made)) == [b"a.txt", b"both.txt", b"new.txt", b"odd\xff\n.bin", b"z.txt"]
