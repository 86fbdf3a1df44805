"""The database comes back from the store: the same ids, names, heads and messages, and nothing of it is garbage."""

from datetime import timedelta
from pathlib import Path

import pytest

from accounts.models import Project
from core import clock
from datasets.adapters import folder_marks
from datasets.adapters.folder import FolderStore
from datasets.adapters.opening import open_dataset_store, open_store
from datasets.engine.layout import commit_key, pack_key, range_key, root_key
from datasets.engine.queries import Conditions
from datasets.errors import StoreUnreachable
from datasets.models import Branch, Commit, Dataset, ManifestRange, Pack, PackState, Query, Store, StoredTree, Tag
from datasets.selectors.trees import TreeReader, list_entries
from datasets.services import branches, datasets, queries, selections, trees, uploads
from datasets.workers import collection, rebuilds, records
from tests.factories.datasets import PackedTree, commit_files, make_dataset, send_tree, source_files, upload_tree
from tests.factories.disasters import lose_database

COMMIT = ("id", "parent_id", "root", "message", "author_name", "source", "created_at", "files", "size_bytes")
COUNTS = ("added", "removed", "changed")


def rows_of(model, *fields) -> list[tuple]:
    return sorted(model.objects.values_list(*fields), key=str)


def everything() -> dict[str, list[tuple]]:
    """Return what must be the same after a rebuild."""
    return {
        "projects": rows_of(Project, "id", "name"),
        "datasets": rows_of(
            Dataset, "id", "project_id", "name", "description", "kind", "is_internal", "default_branch", "idle_days"
        ),
        "commits": rows_of(Commit, *COMMIT, *COUNTS),
        "branches": rows_of(Branch, "dataset_id", "name", "head_id"),
        "tags": rows_of(Tag, "dataset_id", "name", "commit_id"),
        "queries": rows_of(Query, "dataset_id", "name", "ref", "conditions"),
        "packs": rows_of(Pack, "dataset_id", "sha256", "size_bytes", "state", "lender__dataset_id"),
        "ranges": rows_of(ManifestRange, "dataset_id", "range_id", "files", "size_bytes", "is_committed", "packs__sha256"),
        "trees": rows_of(StoredTree, "dataset_id", "root", "files", "size_bytes", "ranges__range_id"),
        "versions": rows_of(Dataset, "id", "state_version", "recorded_version"),
    }  # fmt: skip


def rebuild(store_row) -> dict[str, rebuilds.Rebuilt]:
    return {result.name: result for result in rebuilds.rebuild_store(store_row)}


def objects_of(store_row) -> list:
    return list(open_store(store_row).list_blobs(""))


@pytest.fixture
def history(dataset, member, site_admin):
    """A dataset with branches, a tag and a message, and another that borrows from a stored tree."""
    first = commit_files(member, dataset, {"a/one": b"1", "two": b"2" * 1000, "link": "two"}, message="first\nof all")
    branches.create_branch(actor=member, dataset=dataset, name="dev", at="main")
    base = PackedTree({"a/one": b"1", "two": b"2" * 1000, "link": "two"})
    commit_files(member, dataset, {"a/one": b"changed", "three": b"3"}, branch="dev", message="on dev ✓", on=base)
    commit_files(member, dataset, {"a/one": b"1", "two": b"2" * 1000, "new": b"n"}, message="second")
    branches.create_tag(actor=member, dataset=dataset, name="v1.0", commit=first)
    large = Conditions(min_size_bytes=1000)
    query = queries.create_query(actor=member, dataset=dataset, name="large", conditions=large, ref="v1.0")
    selections.select(actor=member, query=query, source=Branch.objects.get(dataset=dataset, name="main").head)
    datasets.update_dataset(
        actor=site_admin, dataset=dataset, changes={"description": "of lungs", "kind": "images", "idle_days": 3.5}
    )
    content = {"model.bin": b"weights" * 100, "log/loss.csv": b"0.1"}
    tree = trees.store_tree(actor=member, project=dataset.project, holder="job", files=source_files(content))
    kept = make_dataset(member, dataset.project, "models")
    trees.commit_tree(actor=member, tree=tree, dataset=kept, branch="main", message="kept")
    records.write_records()
    return dataset


def test_everything_that_the_store_carries_comes_back(history, store_row):
    before, objects = everything(), objects_of(store_row)
    lose_database()

    results = rebuild(store_row)

    assert everything() == before
    assert objects_of(store_row) == objects
    assert {name: (result.error, result.notes) for name, result in results.items()} == {
        "team-a/xrays": ("", []),
        "team-a/models": ("", []),
        "team-a/~trees": ("", []),
    }


def test_a_second_rebuild_changes_nothing(history, store_row):
    lose_database()
    rebuild(store_row)
    before = everything()

    results = rebuild(store_row)

    assert everything() == before
    assert not any(result.is_new for result in results.values())


def test_a_rebuild_that_broke_off_is_taken_up(history, store_row):
    before = everything()
    lose_database()
    rebuild(store_row)
    Dataset.objects.update(state_version=0, recorded_version=0)
    Branch.objects.all().delete()
    Tag.objects.all().delete()
    Commit.objects.filter(children=None).delete()
    Pack.objects.filter(lender=None).update(state=PackState.CONDEMNED, due_at=clock.now())

    rebuild(store_row)

    assert everything() == before


def test_files_are_the_same_and_can_be_committed_on(history, member, store_row):
    roots = {commit.root: [entry.path for entry in list_entries(commit)] for commit in Commit.objects.all()}
    lose_database()
    rebuild(store_row)

    found = Dataset.objects.get(pk=history.pk)
    commit = commit_files(member, found, {"a/one": b"later"}, message="later")

    assert commit.parent.message == "second"
    for dataset_id, root in Commit.objects.exclude(pk=commit.pk).values_list("dataset_id", "root"):
        reader = TreeReader(Dataset.objects.get(pk=dataset_id))
        assert [entry.path for entry in reader.list_entries(root)] == roots[root]


def test_collections_after_a_rebuild_delete_nothing_that_is_referenced(history, store_row, monkeypatch):
    lose_database()
    rebuild(store_row)
    objects = objects_of(store_row)
    now = clock.now()

    for days in range(2, 40, 2):
        monkeypatch.setattr(clock, "now", lambda days=days: now + timedelta(days=days))
        collection.collect()

    assert objects_of(store_row) == objects


def test_stored_trees_that_are_released_leave(dataset, member, store_row, monkeypatch):
    trees.store_tree(actor=member, project=dataset.project, holder="job", files=source_files({"a": b"1"}))
    records.write_records()
    lose_database()
    rebuild(store_row)
    now = clock.now()

    assert rebuilds.release_trees() == 1
    for days in (2, 4, 20):
        monkeypatch.setattr(clock, "now", lambda days=days: now + timedelta(days=days))
        collection.collect()

    assert [blob.key for blob in objects_of(store_row) if "/records/" not in blob.key] == []


def test_packs_of_an_unfinished_upload_come_back_as_packs_that_nobody_needs(dataset, member, store_row):
    commit_files(member, dataset, {"a": b"1"})
    upload_tree(member, dataset, PackedTree({"b": b"2"}))
    records.write_records()
    lose_database()

    rebuild(store_row)

    assert Pack.objects.count() == 2
    assert ManifestRange.objects.count() == 1


def test_a_deleted_dataset_comes_back_deleted_and_can_be_restored(dataset, project, site_admin, store_row):
    commit = commit_files(site_admin, dataset, {"a": b"1"})
    datasets.delete_dataset(actor=site_admin, dataset=dataset)
    newer = make_dataset(site_admin, project, "xrays")
    commit_files(site_admin, newer, {"b": b"2"})
    records.write_records()
    until = dataset.restore_ends_at
    lose_database()

    rebuild(store_row)

    deleted = Dataset.objects.get(pk=dataset.pk)
    assert (deleted.name, abs(deleted.restore_ends_at - until) < timedelta(seconds=1)) == ("xrays", True)
    assert Dataset.objects.get(deleted_at=None).pk == newer.pk
    restored = datasets.restore_dataset(actor=site_admin, dataset=deleted, name="older")
    assert restored.branches.get(name="main").head_id == commit.pk


def test_a_dataset_that_somebody_deleted_for_good_stays_away(dataset, site_admin, store_row):
    commit_files(site_admin, dataset, {"a": b"1"})
    datasets.delete_dataset(actor=site_admin, dataset=dataset, for_good=True)
    records.write_records()
    lose_database()

    results = rebuild(store_row)

    assert results["team-a/xrays"].notes == ["It was deleted."]
    assert not Dataset.objects.exists()


def test_a_missing_pack_is_damaged_and_a_sync_heals_it(dataset, member, store_row):
    commit_files(member, dataset, {"a": b"1", "b": b"2"})
    records.write_records()
    sha256 = Pack.objects.get().sha256
    open_dataset_store(dataset).delete([pack_key(sha256)])
    lose_database()

    rebuild(store_row)

    assert rows_of(Pack, "sha256", "state") == [(sha256, PackState.DAMAGED)]
    found = Dataset.objects.get()
    tree = PackedTree({"a": b"1", "b": b"2"})
    upload = uploads.start_upload(actor=member, dataset=found, branch="main", client_id="test").upload
    send_tree(member, upload, tree)
    assert rows_of(Pack, "sha256", "state", "size_bytes") == [
        (sha256, PackState.COMPLETE, len(tree.packs[sha256])),
    ]


@pytest.mark.parametrize("kind", ["root", "range"])
def test_packs_that_an_unreadable_manifest_may_need_are_kept(kind, dataset, member, store_row, monkeypatch):
    commit_files(member, dataset, {"a": b"1"})
    commit = commit_files(member, dataset, {"b": b"2"})
    records.write_records()
    ranges = TreeReader(dataset).read_root(commit.root)
    key = root_key(commit.root) if kind == "root" else range_key(ranges[0].range_id)
    open_dataset_store(dataset).put(key, b"noise")
    lose_database()

    results = rebuild(store_row)
    now = clock.now()
    for days in (2, 20):
        monkeypatch.setattr(clock, "now", lambda days=days: now + timedelta(days=days))
        collection.collect()

    assert rows_of(Pack, "state") == [(PackState.COMPLETE,), (PackState.COMPLETE,)]
    assert Branch.objects.get().head_id == commit.id
    assert results["team-a/xrays"].notes == [
        "Some manifests cannot be read. All packs are kept; `manage.py fsck` names the files."
    ]


def test_a_commit_on_no_branch_comes_back_where_it_is_whole(dataset, member, store_row):
    first = commit_files(member, dataset, {"a": b"1"})
    second = commit_files(member, dataset, {"a": b"2"})
    branches.move_branch(actor=member, dataset=dataset, name="main", to=first, expected=second.id)
    records.write_records()
    lose_database()

    results = rebuild(store_row)

    assert rows_of(Commit, "id") == sorted([(first.id,), (second.id,)])
    assert Branch.objects.get().head_id == first.id
    assert results["team-a/xrays"].notes == [f"The commit {second.short} follows the head of a branch and is on none."]


def test_a_dataset_without_a_record_comes_back_under_its_id(dataset, member, store_row):
    commit_files(member, dataset, {"a": b"1"})
    newest = commit_files(member, dataset, {"a": b"2"})
    lose_database()

    rebuild(store_row)

    found = Dataset.objects.get()
    assert (found.id, found.name, found.state_version, found.recorded_version) == (
        dataset.id,
        dataset.id.replace("_", "-"),
        1,
        0,
    )
    assert Branch.objects.get().head_id == newest.id


def test_a_damaged_commit_record_costs_that_commit_only(dataset, member, store_row):
    first = commit_files(member, dataset, {"a": b"1"})
    second = commit_files(member, dataset, {"a": b"2"})
    third = commit_files(member, dataset, {"a": b"3"})
    records.write_records()
    open_dataset_store(dataset).put(commit_key(second.id), b"noise")
    lose_database()

    rebuild(store_row)

    assert rows_of(Commit, "id", "parent_id") == sorted([(first.id, None), (third.id, None)])
    assert Branch.objects.get().head_id == third.id


def test_a_project_that_cannot_be_rebuilt_stops_no_other(history, site_admin, store_row):
    make_dataset(site_admin, Project.objects.create(name="team-b"), "scans")
    records.write_records()
    lose_database()
    other = Project.objects.create(id=history.project_id, name="team-a")
    trees.start_upload(actor=site_admin, project=other, client_id="test")

    results = rebuild(store_row)

    assert {name: result.error for name, result in results.items()} == {
        "team-a/~trees": "team-a holds stored trees that are not those of the store already.",
        "team-a/xrays": "It may need packs of the stored trees of its project, which were not rebuilt.",
        "team-a/models": "It may need packs of the stored trees of its project, which were not rebuilt.",
        "team-b/scans": "",
    }


@pytest.fixture
def lagging(store_row, monkeypatch):
    """Let the listings of the store stay as they are when this is called."""

    def lag() -> None:
        listed = objects_of(store_row)
        monkeypatch.setattr(
            FolderStore, "list_blobs", lambda _store, prefix: (b for b in listed if b.key.startswith(prefix))
        )

    return lag


def test_what_a_lagging_listing_does_not_show_yet_comes_back_too(history, member, store_row, lagging):
    lagging()
    files = {"a/one": b"1", "two": b"2" * 1000, "new": b"n", "newer": b"r"}
    newest = commit_files(member, history, files, message="third")
    branches.create_branch(actor=member, dataset=history, name="late", at="main")
    records.write_records()
    before = everything()
    lose_database()

    results = rebuild(store_row)

    assert everything() == before
    assert [result.notes for result in results.values()] == [[], [], []]
    assert [entry.path for entry in list_entries(Commit.objects.get(pk=newest.pk))] == [
        b"a/one",
        b"new",
        b"newer",
        b"two",
    ]


def test_a_rebuild_takes_the_folder_that_is_there_whatever_its_mark(store_row, history):
    """The database was lost and made anew while the disk was not mounted, or the copy of a folder has no mark."""
    folder = Path(store_row.location)
    records.write_records()
    before = everything()
    lose_database()
    mark = folder_marks.read_mark(folder, folder_marks.STORE_MARK)
    Store.objects.update(mark="of the mount point")
    store_row.refresh_from_db()

    rebuild(store_row)

    assert everything() == before
    assert Store.objects.get().mark == mark
    (folder / folder_marks.STORE_MARK).unlink()
    rebuild(store_row)
    assert Store.objects.get().mark == folder_marks.read_mark(folder, folder_marks.STORE_MARK) != mark


def test_a_rebuild_takes_no_empty_folder(store_row, tmp_path):
    mark = store_row.mark
    Path(store_row.location).rename(tmp_path / "away")
    Path(store_row.location).mkdir()

    with pytest.raises(StoreUnreachable, match="Is its disk mounted"):
        rebuild(store_row)

    assert list(Path(store_row.location).iterdir()) == []
    assert Store.objects.get().mark == mark
