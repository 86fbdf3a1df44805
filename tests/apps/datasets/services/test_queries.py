"""Saved queries, and the commits that hold what they select."""

import pytest

from accounts.errors import PermissionDenied
from datasets.engine.queries import Conditions
from datasets.errors import (
    InvalidLabel,
    InvalidQuery,
    InvalidReference,
    NameTaken,
    NothingSelected,
    QueryNotFound,
    ReferenceNotFound,
)
from datasets.models import Commit, Query, Selection
from datasets.selectors import commits as commit_reads
from datasets.selectors import datasets as dataset_reads
from datasets.selectors import files, trees
from datasets.selectors import queries as reads
from datasets.services import branches, queries, selections
from datasets.workers.records import describe
from tests.engine.datasets.test_parquet_columns import PLAIN as PARQUET
from tests.factories.datasets import commit_files

FILES = {
    "a.png": b"one",
    "b.png": b"three",
    "notes.txt": b"notes",
    "tags.csv": b"path,label\na.png,lung\nnotes.txt,lung\n",
}
PNG = Conditions(types=("png",))


@pytest.fixture
def commit(dataset, member):
    return commit_files(member, dataset, FILES)


@pytest.fixture
def query(dataset, member, commit):
    return queries.create_query(actor=member, dataset=dataset, name="pictures", conditions=PNG)


def paths_of(commit) -> list[str]:
    return [entry.path.decode() for entry in trees.list_entries(commit)]


def test_a_query_is_made_by_who_may_write_and_seen_by_who_may_read(dataset, member, viewer, query):
    with pytest.raises(PermissionDenied):
        queries.create_query(actor=viewer, dataset=dataset, name="mine", conditions=PNG)
    with pytest.raises(PermissionDenied):
        queries.delete_query(actor=viewer, query=query)

    assert [row.name for row in reads.list_queries(viewer, dataset)] == ["pictures"]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"name": "a/b"}, InvalidLabel),
        ({"name": "pictures"}, NameTaken),
        ({"ref": "none"}, ReferenceNotFound),
        ({"conditions": Conditions()}, InvalidQuery),
        ({"conditions": Conditions(regex="(")}, InvalidQuery),
    ],
)
def test_what_cannot_be_a_query_is_refused_and_leaves_nothing(dataset, member, query, wrong, error):
    with pytest.raises(error):
        queries.create_query(actor=member, dataset=dataset, **{"name": "more", "conditions": PNG, **wrong})

    assert [row.name for row in Query.objects.all()] == ["pictures"]


def test_what_is_selected_is_a_commit_behind_the_one_that_was_asked(viewer, query, commit):
    selection = selections.select(actor=viewer, query=query, source=commit)

    assert paths_of(selection) == ["a.png", "b.png"]
    assert (selection.parent_id, selection.source, selection.removed) == (commit.id, "query", 2)
    assert (selection.files, selection.size_bytes) == (2, 8)
    assert b"".join(files.open_file(viewer, selection, path=b"b.png").read()) == b"three"


def test_ranges_that_are_selected_whole_are_those_of_the_source(member, dataset, commit):
    query = queries.create_query(actor=member, dataset=dataset, name="all", conditions=Conditions(globs=("**",)))

    assert selections.select(actor=member, query=query, source=commit).root == commit.root


def test_the_branch_stays_where_it_is(member, dataset, query, commit):
    selections.select(actor=member, query=query, source=commit)

    assert commit_reads.get_commit(member, dataset, "main") == commit


def test_asked_again_it_is_the_same_commit_whoever_asks_and_however_the_query_is_called(member, viewer, query, commit):
    first = selections.select(actor=viewer, query=query, source=commit)
    twin = queries.create_query(actor=member, dataset=query.dataset, name="twin", conditions=PNG)

    assert selections.select(actor=member, query=twin, source=commit) == first
    # The row that remembers it may be lost; the commit is the same once more.
    Selection.objects.all().delete()
    assert selections.select(actor=member, query=query, source=commit) == first
    assert Commit.objects.count() == 2


def test_a_reference_names_the_query_behind_its_colon(member, dataset, query, commit):
    branches.create_tag(actor=member, dataset=dataset, name="v1", commit=commit)
    newest = commit_files(member, dataset, {**FILES, "c.png": b"c"})
    name = f"{dataset.project.name}/xrays"

    by_tag = selections.resolve(actor=member, reference=f"{name}@v1:pictures").commit
    by_default = selections.resolve(actor=member, reference=f"{name}@:pictures").commit

    assert paths_of(by_tag) == ["a.png", "b.png"]
    assert paths_of(by_default) == ["a.png", "b.png", "c.png"]
    assert selections.resolve(actor=member, reference=f"{name}@v1").commit == commit
    assert dataset_reads.resolve(member, f"{name}@:pictures").commit == newest


def test_a_query_is_asked_of_what_it_says_where_nothing_else_is_named(member, dataset, commit):
    branches.create_tag(actor=member, dataset=dataset, name="v1", commit=commit)
    commit_files(member, dataset, {"c.png": b"c"})
    query = queries.create_query(actor=member, dataset=dataset, name="old", conditions=PNG, ref="v1")

    assert reads.get_source(member, query) == commit
    assert reads.get_source(member, query, "main") != commit


@pytest.mark.parametrize("reference", ["xrays@main:none", "xrays@:none"])
def test_a_query_that_is_not_there_is_said_so(member, dataset, query, reference):
    with pytest.raises(QueryNotFound):
        selections.resolve(actor=member, reference=f"{dataset.project.name}/{reference}")


def test_a_colon_without_a_query_is_no_reference(member, dataset, query):
    with pytest.raises(InvalidReference):
        selections.resolve(actor=member, reference=f"{dataset.project.name}/xrays@main:")


def test_tags_come_from_the_list_of_the_commit_that_is_asked(member, dataset, commit):
    tagged = Conditions(file_tags=("label=lung",))
    query = queries.create_query(actor=member, dataset=dataset, name="lungs", conditions=tagged)
    later = commit_files(member, dataset, {**FILES, "tags.csv": b"path,label\nb.png,lung\n"})

    assert paths_of(selections.select(actor=member, query=query, source=commit)) == ["a.png", "notes.txt"]
    assert paths_of(selections.select(actor=member, query=query, source=later)) == ["b.png"]


def test_a_list_of_tags_may_be_a_parquet_file_at_its_usual_place(member, dataset):
    commit = commit_files(member, dataset, {"x/a.png": b"one", "c.png": b"two", "tags.parquet": PARQUET})
    tagged = Conditions(file_tags=("view=PA", "grade=1"))
    query = queries.create_query(actor=member, dataset=dataset, name="front", conditions=tagged)

    assert paths_of(selections.select(actor=member, query=query, source=commit)) == ["x/a.png"]


@pytest.mark.parametrize("tags_file", ["labels.csv", "notes.txt"])
def test_a_list_of_tags_that_cannot_be_read_is_said_so(member, dataset, commit, tags_file):
    asked = Conditions(file_tags=("label=lung",), tags_file=tags_file)
    query = queries.create_query(actor=member, dataset=dataset, name="lungs", conditions=asked)

    with pytest.raises(InvalidQuery, match=tags_file):
        selections.select(actor=member, query=query, source=commit)


def test_nothing_is_made_of_nothing(member, dataset, commit):
    query = queries.create_query(actor=member, dataset=dataset, name="none", conditions=Conditions(contains="xyz"))

    with pytest.raises(NothingSelected):
        selections.select(actor=member, query=query, source=commit)

    assert Commit.objects.count() == 1


def test_what_was_selected_outlives_the_query(member, dataset, query, commit):
    selection = selections.select(actor=member, query=query, source=commit)
    queries.delete_query(actor=member, query=query)

    assert commit_reads.get_commit(member, dataset, selection.id) == selection


def test_queries_are_in_the_record_that_the_store_keeps(dataset, query):
    dataset.refresh_from_db()

    assert describe(dataset).queries == {"pictures": {"ref": "", "conditions": {"types": ["png"]}}}
