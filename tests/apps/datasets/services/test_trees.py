"""Trees that are no commits: stored once, read like those of commits, kept while someone holds them."""

import pytest

from accounts.errors import ProjectNotFound
from accounts.models import Project
from accounts.permissions import Actor, Role
from core import clock, tasks
from core.errors import InvalidInput
from datasets.adapters.opening import open_dataset_store
from datasets.engine.layout import pack_key, range_key, root_key
from datasets.engine.ports import Announcement
from datasets.errors import ContentCorrupt, DatasetNotFound, FileNotInCommit, SourceChanged, TreeNotFound
from datasets.models import Branch, Dataset, Pack, PackState, StoredTree, TreeHold
from datasets.selectors import commits as commit_reads
from datasets.selectors import datasets as dataset_reads
from datasets.selectors import files, hub
from datasets.selectors import trees as tree_reads
from datasets.services import datasets, downloads, packs, trees, uploads
from datasets.services.downloads import Wanted
from datasets.services.uploads import ObjectKind, Offer
from datasets.workers import collection, purges, store_requests
from datasets.workers.checkouts import write_tree
from nearline.content.packs import THRESHOLD_BYTES
from tests.factories.datasets import commit_files, make_dataset, read_tree, source_files
from tests.factories.queues import RecordedQueue

FILES = {"a.txt": b"one", "b/c.txt": b"two", "b/empty": b"", "b/link": "c.txt", "b/run.sh": (b"#!/bin/sh", 0o755)}


@pytest.fixture
def store(store_row, member, project):
    """Store files for a holder."""
    return lambda content, holder="job_1": trees.store_tree(
        actor=member, project=project, holder=holder, files=source_files(content)
    )


def objects(dataset):
    return {blob.key for blob in open_dataset_store(dataset).list_blobs("")}


def packed_bytes(project):
    return sum(pack.size_bytes for pack in Pack.objects.filter(dataset__project=project, lender=None))


def read(actor, tree, path):
    return b"".join(files.open_file(actor, tree, path=path).read())


def collect_all(at):
    """Let everything that nothing refers to leave: trees, ranges and packs each wait their time."""
    for days in (2, 4, 6, 30):
        at(days)
        collection.collect()


def test_a_stored_tree_is_browsed_and_read_like_the_tree_of_a_commit(store, member):
    tree = store(FILES)

    listing = files.list_folder(member, tree, path=b"b", cursor=None, limit=100).items
    assert [item.path for item in listing] == [b"b/c.txt", b"b/empty", b"b/link", b"b/run.sh"]
    assert (tree.files, tree.size_bytes) == (5, 20)
    assert read(member, tree, b"a.txt") == b"one"
    assert read(member, tree, b"b/empty") == b""
    assert [item.mode for item in listing if item.path == b"b/run.sh"] == [0o755]
    with pytest.raises(FileNotInCommit, match=f"The tree {tree.root[:8]} has no file 'missing'"):
        files.open_file(member, tree, path=b"missing")


def test_a_stored_tree_has_the_root_that_a_commit_of_the_same_files_has(store, member, dataset):
    commit = commit_files(member, dataset, FILES)

    assert store(FILES).root == commit.root


def test_a_page_of_a_stored_tree_is_a_page_of_many(store, member):
    tree = store({f"{number:05}": b"x%d" % number for number in range(3000)})

    first = files.list_folder(member, tree, path=b"", cursor=None, limit=1000)
    second = files.list_folder(member, tree, path=b"", cursor=first.next_cursor, limit=1000)

    assert [item.path for item in second.items][:1] == [b"01000"]
    assert tree.files == 3000


def test_a_large_file_is_stored_in_chunks_and_read_back_whole(store, member):
    content = b"".join(number.to_bytes(4, "big") for number in range(THRESHOLD_BYTES // 2))

    tree = store({"model.bin": content, "z": b"after"})

    assert read(member, tree, b"model.bin") == content
    assert len(files.open_file(member, tree, path=b"model.bin").entry.blobs) > 1


def test_equal_files_are_stored_once_in_one_tree_and_across_trees(store, project):
    store({"a": b"same" * 1000, "b": b"same" * 1000})
    once = packed_bytes(project)

    store({"c/d": b"same" * 1000}, "job_2")

    assert once < 2 * 4000
    assert packed_bytes(project) == once
    assert Pack.objects.count() == 1


def test_a_tree_that_is_stored_again_adds_nothing(store, project):
    first = store(FILES)
    before = objects(first.dataset)

    second = store(FILES, "job_2")

    assert second == first
    assert objects(first.dataset) == before
    assert set(TreeHold.objects.values_list("holder", "tree_id")) == {("job_1", first.pk), ("job_2", first.pk)}


def test_a_tree_without_files_can_be_stored(store, member):
    tree = store({})

    assert (tree.files, tree.size_bytes) == (0, 0)
    assert files.list_folder(member, tree, path=b"", cursor=None, limit=10).items == []


def test_a_holder_that_stores_anew_holds_the_new_tree_only(store, at, member):
    old = store({"a": b"old"})
    new = store({"a": b"new"})

    collect_all(at)

    assert list(StoredTree.objects.all()) == [new]
    assert read(member, new, b"a") == b"new"
    assert root_key(old.root) not in objects(new.dataset)


def test_a_released_tree_leaves_the_store_with_all_that_only_it_has(store, member, at):
    kept = store({"a": b"shared", "b": b"kept"}, "job_1")
    gone = store({"a": b"shared", "c": b"gone"}, "job_2")

    trees.release_tree(actor=member, holder="job_2")
    collect_all(at)

    assert read(member, kept, b"a") == b"shared"
    assert not StoredTree.objects.filter(pk=gone.pk).exists()
    ranges = {row.range_id for row in kept.ranges.all()}
    names = {pack.sha256 for pack in kept.dataset.packs.all()}
    assert objects(kept.dataset) == {
        root_key(kept.root),
        *(range_key(range_id) for range_id in ranges),
        *(pack_key(sha256) for sha256 in names),
    }
    assert len(ranges) == len(names) == 1


def test_a_tree_that_is_held_stays_however_old_it_is(store, member, at):
    tree = store(FILES)

    collect_all(at)

    assert read(member, tree, b"a.txt") == b"one"


def test_releasing_what_nobody_holds_changes_nothing(store, member):
    store(FILES)

    trees.release_tree(actor=member, holder="job_9")

    assert TreeHold.objects.count() == 1


def test_a_file_that_is_longer_or_shorter_than_it_was_said_to_be_is_refused_and_nothing_is_held(
    store_row, member, project
):
    (short,) = source_files({"a": b"four"})
    for size in (3, 5):
        file = trees.SourceFile(b"a", 0o644, size, 0, short.open)
        with pytest.raises(SourceChanged):
            trees.store_tree(actor=member, project=project, holder="job_1", files=[file])

    assert not TreeHold.objects.exists()


def test_files_that_do_not_come_in_the_order_of_their_paths_are_refused(store_row, member, project):
    two = list(source_files({"a": b"1", "b": b"2"}))

    with pytest.raises(InvalidInput):
        trees.store_tree(actor=member, project=project, holder="job_1", files=reversed(two))

    assert not StoredTree.objects.exists()


def test_the_internal_dataset_is_in_no_list_and_under_no_name(store, project, member, make_actor):
    tree = store(FILES)
    admin, site = make_actor(Role.ADMIN), Actor.system("test")

    for actor in (member, admin, site):
        assert list(dataset_reads.list_datasets(actor=actor)) == []
        with pytest.raises(DatasetNotFound):
            dataset_reads.get_dataset(actor=actor, project=project.name, name=tree.dataset.name)
    with pytest.raises(InvalidInput):
        datasets.delete_dataset(actor=admin, dataset=tree.dataset)
    assert Dataset.objects.get(pk=tree.dataset_id).deleted_at is None


def test_stored_trees_count_in_the_usage_of_their_project(store, project, member):
    store(FILES)

    totals = hub.measure(actor=member)

    assert totals.datasets == 0
    assert totals.stored_bytes == packed_bytes(project) > 0


def test_strangers_find_no_tree(store, make_actor, project):
    tree, viewer = store(FILES), make_actor(Role.VIEWER)
    stranger = Actor(user_id=None, name="stranger")

    with pytest.raises(TreeNotFound):
        tree_reads.get_tree(stranger, tree.dataset_id, tree.root)
    with pytest.raises(ProjectNotFound):
        tree_reads.get_tree_of(stranger, project.pk, tree.root)
    with pytest.raises(TreeNotFound):
        tree_reads.get_tree_of(viewer, project.pk, "0" * 64)
    assert tree_reads.get_tree(viewer, tree.dataset_id, tree.root) == tree
    assert tree_reads.get_tree_of(viewer, project.pk, tree.root) == tree


def test_a_kept_tree_is_a_commit_that_copies_no_content(store, member, dataset, project):
    tree = store(FILES)
    stored = packed_bytes(project)

    commit = trees.commit_tree(actor=member, tree=tree, dataset=dataset, branch="main", message="the model")

    assert (commit.root, commit.files, commit.source, commit.message) == (tree.root, 5, "flow", "the model")
    assert Branch.objects.get(dataset=dataset, name="main").head == commit
    assert read(member, commit, b"b/c.txt") == b"two"
    assert packed_bytes(project) == stored
    assert not any(key.startswith("packs/") for key in objects(dataset))
    assert hub.measure(actor=member).stored_bytes == stored


def test_keeping_a_tree_again_returns_the_commit_that_is_there(store, member, dataset):
    tree = store(FILES)
    first = trees.commit_tree(actor=member, tree=tree, dataset=dataset, branch="main")

    assert trees.commit_tree(actor=member, tree=tree, dataset=dataset, branch="main") == first


def test_a_tree_is_not_kept_in_a_dataset_of_another_project(store, make_actor, member):
    tree = store(FILES)
    other = Project.objects.create(name="team-b")
    system = Actor.system("test")
    dataset = make_dataset(system, other)

    with pytest.raises(InvalidInput):
        trees.commit_tree(actor=system, tree=tree, dataset=dataset, branch="main")

    assert not dataset.commits.exists()
    assert not dataset.packs.exists()


def test_a_commit_of_a_released_tree_still_reads_after_every_collection(store, member, dataset, at):
    tree = store(FILES)
    commit = trees.commit_tree(actor=member, tree=tree, dataset=dataset, branch="main")

    trees.release_tree(actor=member, holder="job_1")
    collect_all(at)

    tree_reads.forget()
    assert not StoredTree.objects.exists()
    assert read(member, commit, b"a.txt") == b"one"
    assert {pack.state for pack in Pack.objects.all()} == {PackState.COMPLETE}


def test_the_purge_of_a_dataset_that_borrows_leaves_the_tree_alone(store, member, make_actor, dataset, at):
    tree = store(FILES)
    trees.commit_tree(actor=member, tree=tree, dataset=dataset, branch="main")

    datasets.delete_dataset(actor=make_actor(Role.ADMIN), dataset=dataset, for_good=True)
    at(1)
    assert purges.purge_deleted() == 1
    collect_all(at)

    assert not dataset.packs.exists()
    assert read(member, tree, b"a.txt") == b"one"


def test_packs_that_were_borrowed_leave_once_the_last_borrower_is_purged(store, member, make_actor, dataset, at):
    tree = store(FILES)
    trees.commit_tree(actor=member, tree=tree, dataset=dataset, branch="main")
    trees.release_tree(actor=member, holder="job_1")
    datasets.delete_dataset(actor=make_actor(Role.ADMIN), dataset=dataset, for_good=True)

    at(1)
    purges.purge_deleted()
    collect_all(at)

    assert not Pack.objects.exists()
    assert objects(tree.dataset) == set()


def test_a_dataset_that_lends_packs_is_not_purged(store, member, dataset, at):
    tree = store(FILES)
    commit = trees.commit_tree(actor=member, tree=tree, dataset=dataset, branch="main")
    Dataset.objects.filter(pk=tree.dataset_id).update(deleted_at=clock.now())

    at(1)

    assert purges.purge_deleted() == 0
    assert read(member, commit, b"a.txt") == b"one"


def test_addresses_of_borrowed_packs_lead_to_where_they_lie(store, member, dataset):
    tree = store(FILES)
    trees.commit_tree(actor=member, tree=tree, dataset=dataset, branch="main")
    (pack,) = dataset.packs.all()

    (answer,) = downloads.sign_downloads(actor=member, dataset=dataset, objects=[Wanted(ObjectKind.PACK, pack.sha256)])

    found = open_dataset_store(tree.dataset).stat(pack_key(pack.sha256))
    assert found is not None

    assert store_requests.find_signed(signed=answer.request.url.rpartition("/")[2]).size_bytes == found.size_bytes


def test_a_client_need_not_send_a_pack_that_its_dataset_borrows(store, member, dataset):
    tree = store(FILES)
    trees.commit_tree(actor=member, tree=tree, dataset=dataset, branch="main")
    (pack,) = dataset.packs.all()
    upload = uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="x").upload

    (answer,) = uploads.offer_packs(
        actor=member,
        upload=upload,
        offers=[Offer(ObjectKind.PACK, pack.sha256, Announcement(pack.size_bytes, pack.sha256))],
    )

    assert answer.state == "complete"


def test_damage_of_a_pack_shows_where_it_lies_and_where_it_is_borrowed_and_heals_in_both(store, member, dataset):
    tree = store(FILES)
    trees.commit_tree(actor=member, tree=tree, dataset=dataset, branch="main")
    (borrowed,) = dataset.packs.all()
    lender = open_dataset_store(tree.dataset)
    whole = lender.get(pack_key(borrowed.sha256))

    lender.put(pack_key(borrowed.sha256), b"?" + whole[1:])
    damaged = packs.check_all_packs(dataset)

    assert damaged == [borrowed.sha256]
    assert {pack.state for pack in Pack.objects.all()} == {PackState.DAMAGED}
    upload = uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="x").upload
    offer = Offer(ObjectKind.PACK, borrowed.sha256, Announcement(len(whole), borrowed.sha256))
    (answer,) = uploads.offer_packs(actor=member, upload=upload, offers=[offer])
    assert answer.request is not None
    open_dataset_store(dataset).put(pack_key(borrowed.sha256), whole)
    uploads.confirm_packs(actor=member, upload=upload, names=[borrowed.sha256])

    assert {pack.state for pack in Pack.objects.all()} == {PackState.COMPLETE}
    assert lender.get(pack_key(borrowed.sha256)) == whole


def test_content_of_a_damaged_pack_is_stored_anew(store, member):
    tree = store({"a": b"precious", "b": b"other"})
    (pack,) = tree.dataset.packs.all()
    Pack.objects.filter(pk=pack.pk).update(state=PackState.DAMAGED)

    again = store({"a": b"precious"}, "job_2")

    (blob,) = files.open_file(member, again, path=b"a").entry.blobs
    assert blob.pack.hex() != pack.sha256


def test_a_dataset_keeps_packs_that_it_has_itself(store, member, dataset):
    content = {"a": b"one"}
    own = commit_files(member, dataset, content)
    tree = store(content)

    commit = trees.commit_tree(actor=member, tree=tree, dataset=dataset, branch="main")

    assert commit == own
    assert list(dataset.packs.values_list("lender", flat=True)) == [None]
    assert commit_reads.get_branch(member, dataset, "main").head == own


def test_a_commit_of_borrowed_packs_is_written_to_a_folder(store, member, dataset, tmp_path):
    commit = trees.commit_tree(actor=member, tree=store(FILES), dataset=dataset, branch="main")

    write_tree(commit.id, tmp_path / "copy")

    assert read_tree(tmp_path / "copy") == {
        name: content[0] if isinstance(content, tuple) else content for name, content in FILES.items()
    }


def test_what_a_reader_finds_damaged_is_stored_anew_when_it_comes_again(store, member):
    tree, queue = store(FILES), RecordedQueue()
    pack = Pack.objects.get()
    open_dataset_store(tree.dataset).put(pack_key(pack.sha256), bytes(pack.size_bytes))
    tasks.install(queue)
    with pytest.raises(ContentCorrupt):
        read(member, tree, b"a.txt")
    assert queue.messages == [("datasets.check_pack", {"dataset_id": tree.dataset_id, "pack": pack.sha256})]
    queue.work()

    again = store(FILES, holder="job_2")

    assert (again, read(member, again, b"a.txt")) == (tree, b"one")
