"""Datasets come and go; their bytes go after them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from accounts.errors import InvalidName, PermissionDenied, ProjectNotFound
from accounts.models import AuditEntry
from accounts.permissions import Role
from core import clock
from core.errors import InvalidInput
from datasets.adapters.opening import open_dataset_store
from datasets.errors import (
    DatasetExists,
    DatasetNotFound,
    DeletedDatasetNotFound,
    RestoreNameTaken,
    StoreNotFound,
)
from datasets.models import Branch, CachedCommit, CacheSite, Commit, Dataset, Pack, Store, StoreKind
from datasets.selectors import datasets as dataset_reads
from datasets.services import caches, datasets
from datasets.workers import collection, purges
from tests.factories.datasets import commit_files, make_dataset

# No address that was signed before is good any more.
START = datetime(2030, 1, 1, tzinfo=UTC)
LATER = datetime(2100, 1, 1, tzinfo=UTC)


def test_a_new_dataset_has_an_empty_branch_main(store_row, member, project):
    dataset = datasets.create_dataset(actor=member, project=project, name="xrays", description="Chests", kind="images")

    assert (dataset.default_branch, dataset.kind, dataset.store) == ("main", "images", store_row)
    assert [(branch.name, branch.head_id) for branch in dataset.branches.all()] == [("main", None)]
    assert AuditEntry.objects.filter(action="datasets.create", target_id=dataset.id).count() == 1


def test_a_taken_name_is_refused(dataset, member, project):
    with pytest.raises(DatasetExists):
        datasets.create_dataset(actor=member, project=project, name="xrays")

    assert Dataset.objects.count() == 1
    assert Branch.objects.count() == 1


@pytest.mark.parametrize("name", ["", "X", "a b", "../a", "a" * 64, "1a"])
def test_a_bad_name_is_refused(store_row, member, project, name):
    with pytest.raises(InvalidName):
        datasets.create_dataset(actor=member, project=project, name=name)

    assert not Dataset.objects.exists()


def test_a_viewer_may_not_create(store_row, viewer, project):
    with pytest.raises(PermissionDenied):
        datasets.create_dataset(actor=viewer, project=project, name="xrays")

    assert not Dataset.objects.exists()


def test_without_a_store_there_are_no_datasets(member, project):
    with pytest.raises(StoreNotFound):
        datasets.create_dataset(actor=member, project=project, name="xrays")


def test_what_is_said_about_a_dataset_can_be_changed(dataset, member):
    datasets.update_dataset(actor=member, dataset=dataset, changes={"description": "New", "idle_days": 0})

    dataset.refresh_from_db()
    assert (dataset.description, dataset.idle_days) == ("New", 0)


def test_an_admin_gives_a_dataset_a_name_that_is_free(dataset, member, make_actor):
    admin = make_actor(Role.ADMIN)
    datasets.create_dataset(actor=member, project=dataset.project, name="taken")

    with pytest.raises(PermissionDenied):
        datasets.update_dataset(actor=member, dataset=dataset, changes={"name": "lungs"})
    with pytest.raises(DatasetExists):
        datasets.update_dataset(actor=admin, dataset=dataset, changes={"name": "taken"})
    with pytest.raises(InvalidName):
        datasets.update_dataset(actor=admin, dataset=dataset, changes={"name": "../lungs"})
    datasets.update_dataset(actor=admin, dataset=dataset, changes={"name": "lungs"})

    assert sorted(Dataset.objects.values_list("name", flat=True)) == ["lungs", "taken"]


@pytest.mark.parametrize(
    "changes", [{"idle_days": -1}, {"default_branch": "none"}, {"store": "other"}, {"description": "x" * 2001}]
)
def test_senseless_changes_are_refused(dataset, member, changes):
    with pytest.raises(InvalidInput):
        datasets.update_dataset(actor=member, dataset=dataset, changes=changes)

    dataset.refresh_from_db()
    assert (dataset.idle_days, dataset.default_branch, dataset.name) == (None, "main", "xrays")


def test_only_an_admin_deletes(dataset, member):
    with pytest.raises(PermissionDenied):
        datasets.delete_dataset(actor=member, dataset=dataset)

    dataset.refresh_from_db()
    assert dataset.deleted_at is None


def test_a_stranger_learns_nothing(dataset, make_actor):
    stranger = make_actor(None)

    with pytest.raises(DatasetNotFound):
        dataset_reads.get_dataset(actor=stranger, project="team-a", name="xrays")
    with pytest.raises(ProjectNotFound):
        datasets.delete_dataset(actor=stranger, dataset=dataset)
    assert list(dataset_reads.list_datasets(actor=stranger)) == []


def test_a_deleted_dataset_is_gone_at_once_and_its_name_is_free(dataset, member, make_actor, project):
    datasets.delete_dataset(actor=make_actor(Role.ADMIN), dataset=dataset)

    with pytest.raises(DatasetNotFound):
        dataset_reads.get_dataset(actor=member, project="team-a", name="xrays")
    assert make_dataset(member, project, "xrays").id != dataset.id


def test_members_are_told_that_a_dataset_is_deleted_and_until_when_it_can_be_restored(
    dataset, member, admin, make_actor
):
    with clock.frozen_at(START):
        datasets.delete_dataset(actor=admin, dataset=dataset)

        with pytest.raises(DatasetNotFound, match=r"team-a/xrays is deleted\. Until .* UTC an admin of team-a can"):
            dataset_reads.get_dataset(actor=member, project="team-a", name="xrays")
        with pytest.raises(DatasetNotFound) as refused:
            dataset_reads.get_dataset(actor=make_actor(None), project="team-a", name="xrays")
    assert "deleted" not in refused.value.message


def test_the_bytes_of_a_deleted_dataset_leave_the_store_and_no_others(dataset, member, make_actor, project):
    other = make_dataset(member, project)
    commit_files(member, dataset, {"a": b"1"})
    kept = commit_files(member, other, {"a": b"1"})
    datasets.delete_dataset(actor=make_actor(Role.ADMIN), dataset=dataset)

    at_once = purges.purge_deleted()
    with clock.frozen_at(LATER):
        done = purges.purge_deleted()

    dataset.refresh_from_db()
    assert (at_once, done) == (0, 1)
    assert dataset.purged_at is not None
    assert list(open_dataset_store(dataset).list_blobs("")) == []
    assert len(list(open_dataset_store(other).list_blobs(""))) == 4
    assert Commit.objects.filter(dataset=dataset).count() == 1  # the record of what was trained on stays
    assert Pack.objects.filter(dataset=dataset).count() == 0
    assert kept.dataset_id == other.id
    assert purges.purge_deleted() == 0


def test_nothing_is_purged_that_nobody_deleted(dataset, member):
    commit_files(member, dataset, {"a": b"1"})

    assert purges.purge_deleted() == 0
    assert len(list(open_dataset_store(dataset).list_blobs(""))) == 4


def test_deleting_twice_is_told_once(dataset, make_actor):
    admin = make_actor(Role.ADMIN)
    datasets.delete_dataset(actor=admin, dataset=dataset)
    with clock.frozen_at(clock.now()):
        datasets.delete_dataset(actor=admin, dataset=dataset)

    assert AuditEntry.objects.filter(action="datasets.delete").count() == 1


def test_copies_of_a_deleted_dataset_leave_first_pinned_ones_too(dataset, member, make_actor, tmp_path):
    commit = commit_files(member, dataset, {"a": b"1"})
    site = CacheSite.objects.create(name="local", root=str(tmp_path / "cache"), capacity_bytes=1 << 30)
    copy = caches.request_cache(actor=member, commit=commit, site=site)
    caches.set_pinned(actor=member, cached_commit_id=copy.pk, is_pinned=True)
    datasets.delete_dataset(actor=make_actor(Role.ADMIN), dataset=dataset)

    before = purges.purge_deleted()
    copy.refresh_from_db()
    state_after_tick = copy.state
    CachedCommit.objects.filter(pk=copy.pk).update(state="gone")
    with clock.frozen_at(LATER):
        after = purges.purge_deleted()

    assert (before, state_after_tick, after) == (0, "evicting", 1)


def test_a_copy_in_use_keeps_the_bytes_of_a_deleted_dataset(dataset, member, make_actor, tmp_path):
    commit = commit_files(member, dataset, {"a": b"1"})
    site = CacheSite.objects.create(name="local", root=str(tmp_path / "cache"), capacity_bytes=1 << 30)
    copy = caches.request_cache(actor=member, commit=commit, site=site, holder="job-1")
    datasets.delete_dataset(actor=make_actor(Role.ADMIN), dataset=dataset)

    with clock.frozen_at(LATER):
        assert purges.purge_deleted() == 0

    copy.refresh_from_db()
    assert copy.state == "queued"
    assert len(list(open_dataset_store(dataset).list_blobs(""))) == 4


@pytest.fixture
def admin(make_actor):
    return make_actor(Role.ADMIN, name="admin")


def test_a_deleted_dataset_keeps_its_objects_until_its_time_is_over_and_no_longer(dataset, member, admin):
    commit_files(member, dataset, {"a": b"1"})
    with clock.frozen_at(START):
        datasets.delete_dataset(actor=admin, dataset=dataset)

    with clock.frozen_at(START + timedelta(days=7) - timedelta(seconds=1)):
        purges.purge_deleted()
        collection.collect()
        objects_before = len(list(open_dataset_store(dataset).list_blobs("")))
    with clock.frozen_at(START + timedelta(days=7)):
        done = purges.purge_deleted()

    assert (objects_before, done) == (4, 1)
    assert list(open_dataset_store(dataset).list_blobs("")) == []
    assert AuditEntry.objects.filter(action="datasets.delete_for_good", target_id=dataset.id).count() == 1


def test_a_restored_dataset_is_as_it_was_and_its_packs_stay(dataset, member, admin):
    commit_files(member, dataset, {"a": b"1"})
    with clock.frozen_at(START):
        datasets.delete_dataset(actor=admin, dataset=dataset)
    with clock.frozen_at(START + timedelta(days=6)):
        deleted = dataset_reads.get_deleted(actor=admin, dataset_id=dataset.pk)
        restored = datasets.restore_dataset(actor=admin, dataset=deleted)

    with clock.frozen_at(LATER):
        purges.purge_deleted()
        collection.collect()

    assert (restored.deleted_at, restored.deleted_by, restored.restore_ends_at) == (None, None, None)
    assert dataset_reads.get_dataset(actor=member, project="team-a", name="xrays").pk == dataset.pk
    assert len(list(open_dataset_store(dataset).list_blobs(""))) == 4
    assert [pack.state for pack in dataset.packs.all()] == ["complete"]
    assert AuditEntry.objects.filter(action="datasets.restore", target_id=dataset.id).count() == 1


def test_a_dataset_whose_name_was_taken_is_restored_by_another(dataset, member, admin, project):
    datasets.delete_dataset(actor=admin, dataset=dataset)
    newer = make_dataset(member, project, "xrays")

    with pytest.raises(RestoreNameTaken):
        datasets.restore_dataset(actor=admin, dataset=dataset)
    dataset.refresh_from_db()
    assert (dataset.name, dataset.deleted_by_id) == ("xrays", admin.user_id)
    with pytest.raises(InvalidName):
        datasets.restore_dataset(actor=admin, dataset=dataset, name="../x")
    datasets.restore_dataset(actor=admin, dataset=dataset, name="xrays-old")

    assert dataset_reads.get_dataset(actor=member, project="team-a", name="xrays-old").pk == dataset.pk
    assert dataset_reads.get_dataset(actor=member, project="team-a", name="xrays").pk == newer.pk


def test_only_admins_of_the_project_see_and_restore_what_was_deleted(dataset, member, admin, make_actor):
    datasets.delete_dataset(actor=admin, dataset=dataset)

    assert [row.pk for row in dataset_reads.list_deleted(actor=admin)] == [dataset.pk]
    assert [row.pk for row in dataset_reads.list_deleted(actor=admin, project=dataset.project.name)] == [dataset.pk]
    with pytest.raises(ProjectNotFound):
        dataset_reads.list_deleted(actor=admin, project="team-b")
    assert list(dataset_reads.list_deleted(actor=member)) == []
    with pytest.raises(PermissionDenied):
        dataset_reads.get_deleted(actor=member, dataset_id=dataset.pk)
    with pytest.raises(DeletedDatasetNotFound):
        dataset_reads.get_deleted(actor=make_actor(None), dataset_id=dataset.pk)
    with pytest.raises(PermissionDenied):
        datasets.restore_dataset(actor=member, dataset=dataset)
    with pytest.raises(PermissionDenied):
        datasets.delete_for_good(actor=member, dataset=dataset)
    dataset.refresh_from_db()
    assert dataset.restore_ends_at == dataset.deleted_at + timedelta(days=7)


@pytest.mark.parametrize("way", ["at once", "later", "setting"])
def test_what_is_deleted_for_good_cannot_be_restored(way, dataset, member, admin, settings):
    commit_files(member, dataset, {"a": b"1"})
    if way == "setting":
        settings.NEARLINE = replace(settings.NEARLINE, restore_days=0)
    datasets.delete_dataset(actor=admin, dataset=dataset, for_good=way == "at once")
    if way == "later":
        datasets.delete_for_good(actor=admin, dataset=dataset)

    with pytest.raises(DeletedDatasetNotFound):
        datasets.restore_dataset(actor=admin, dataset=dataset)

    assert list(dataset_reads.list_deleted(actor=admin)) == []
    with clock.frozen_at(clock.now() + timedelta(hours=1)):
        assert purges.purge_deleted() == 1


def test_nobody_restores_a_dataset_when_its_time_is_over_even_before_the_task_has_run(dataset, admin):
    with clock.frozen_at(START):
        datasets.delete_dataset(actor=admin, dataset=dataset)

    with clock.frozen_at(START + timedelta(days=7)), pytest.raises(DeletedDatasetNotFound):
        datasets.restore_dataset(actor=admin, dataset=dataset)

    dataset.refresh_from_db()
    assert dataset.deleted_at == START


def test_a_dataset_that_cannot_be_purged_stops_no_other(dataset, member, admin, project):
    broken = make_dataset(member, project, "broken")
    commit_files(member, dataset, {"a": b"1"})
    for each in (broken, dataset):
        datasets.delete_dataset(actor=admin, dataset=each)
    elsewhere = Store.objects.create(name="elsewhere", kind=StoreKind.S3, location="s3://nothing")
    Dataset.objects.filter(pk=broken.pk).update(store=elsewhere)

    with clock.frozen_at(LATER):
        done = purges.purge_deleted()

    broken.refresh_from_db()
    dataset.refresh_from_db()
    assert (done, broken.purged_at, dataset.purged_at) == (1, None, LATER)
