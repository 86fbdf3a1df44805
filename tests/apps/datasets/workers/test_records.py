"""The record of a dataset in its store: written after each change, the newest counts, old ones go."""

import pytest

from core import clock
from datasets.adapters.opening import open_manifests
from datasets.engine.layout import DatasetRecord, record_key
from datasets.models import Dataset
from datasets.services import branches, datasets
from datasets.workers import records
from tests.factories.datasets import commit_files


def records_of(dataset) -> list[DatasetRecord]:
    store = open_manifests(dataset)
    return [DatasetRecord.decode(store.get(blob.key)) for blob in store.list_blobs("records/")]


def test_the_record_says_what_the_database_says(dataset, member):
    first = commit_files(member, dataset, {"a": b"1"})
    second = commit_files(member, dataset, {"a": b"2"})
    branches.create_branch(actor=member, dataset=dataset, name="dev", at=first.id)
    branches.create_tag(actor=member, dataset=dataset, name="v1", commit=first)

    records.write_records()

    dataset.refresh_from_db()
    assert records_of(dataset) == [
        DatasetRecord(
            dataset=dataset.id,
            version=dataset.state_version,
            project=dataset.project_id,
            project_name=dataset.project.name,
            name="xrays",
            description="",
            kind="general",
            is_internal=False,
            default_branch="main",
            idle_days=None,
            created_at_ms=round(dataset.created_at.timestamp() * 1000),
            deleted_at_ms=None,
            branches={"dev": first.id, "main": second.id},
            tags={"v1": first.id},
        )
    ]
    assert dataset.recorded_version == dataset.state_version


def test_every_change_makes_a_record_due(dataset, site_admin):
    commit = commit_files(site_admin, dataset, {"a": b"1"})
    newer = commit_files(site_admin, dataset, {"a": b"2"})
    changes = [
        lambda: branches.create_branch(actor=site_admin, dataset=dataset, name="dev", at="main"),
        lambda: branches.move_branch(actor=site_admin, dataset=dataset, name="dev", to=commit, expected=newer.id),
        lambda: branches.delete_branch(actor=site_admin, dataset=dataset, name="dev"),
        lambda: branches.create_tag(actor=site_admin, dataset=dataset, name="v1", commit=commit),
        lambda: branches.delete_tag(actor=site_admin, dataset=dataset, name="v1"),
        lambda: datasets.update_dataset(actor=site_admin, dataset=dataset, changes={"description": "new"}),
        lambda: commit_files(site_admin, dataset, {"a": b"3"}),
        lambda: datasets.delete_dataset(actor=site_admin, dataset=dataset),
    ]

    for change in changes:
        records.write_records()
        assert not records.find_work()[0].exists()
        change()
        assert records.find_work()[0].exists()


def test_a_record_takes_the_place_of_the_one_before(dataset, member):
    commit_files(member, dataset, {"a": b"1"})
    records.write_records()
    newest = commit_files(member, dataset, {"a": b"2"})

    records.write_records()

    assert [record.branches for record in records_of(dataset)] == [{"main": newest.id}]


def test_a_writer_that_is_late_does_not_hide_the_newer_record(dataset, member):
    late = Dataset.objects.select_related("store", "project").get(pk=dataset.pk)
    commit = commit_files(member, dataset, {"a": b"1"})
    records.write_records()

    records.write_record(late)

    newest = max(records_of(dataset), key=lambda record: record.version)
    assert newest.branches == {"main": commit.id}
    assert not records.find_work()[0].exists()


def test_a_dataset_whose_objects_are_gone_gets_no_record(dataset):
    Dataset.objects.filter(pk=dataset.pk).update(deleted_at=clock.now(), purged_at=clock.now())

    records.write_records()

    assert records_of(dataset) == []


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: b"x" + data[1:], lambda data: b""])
def test_a_record_that_is_damaged_is_refused(dataset, change):
    records.write_records()
    dataset.refresh_from_db()
    data = open_manifests(dataset).get(record_key(dataset.state_version))

    with pytest.raises(ValueError, match="hash"):
        DatasetRecord.decode(change(data))
