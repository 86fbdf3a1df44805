"""`manage.py fsck` as an admin sees it."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from datasets.adapters.opening import open_dataset_store
from datasets.engine.layout import pack_key, record_key, root_key
from datasets.models import Dataset, Pack, Store
from datasets.services import trees
from datasets.workers import records
from tests.factories.datasets import commit_files, source_files
from tests.factories.disasters import lose_database


def fsck(*arguments: str) -> list[str]:
    output = StringIO()
    call_command("fsck", *arguments, stdout=output)
    return output.getvalue().splitlines()


def test_a_whole_store_is_said_to_be_whole(dataset, member):
    commit_files(member, dataset, {"a": b"1" * 1000})
    records.write_records()

    assert fsck() == ["team-a/xrays: 1 tree, 1 range, 1 pack (1.0 kB)", "Nothing is missing or damaged."]
    assert fsck("--level", "objects") == ["team-a/xrays: 1 tree, 1 range", "Nothing is missing or damaged."]


def test_damage_is_shown_with_dataset_commit_and_files_and_ends_with_an_error(dataset, member):
    commit = commit_files(member, dataset, {f"{name}.png": name.encode() for name in "abcdefg"})
    records.write_records()
    key = pack_key(Pack.objects.get().sha256)
    open_dataset_store(dataset).delete([key])
    output = StringIO()

    with pytest.raises(CommandError, match=r"^1 object missing or damaged\.$"):
        call_command("fsck", stdout=output)

    assert output.getvalue().splitlines() == [
        "team-a/xrays: 1 tree, 1 range, 1 pack (0 B)",
        f"  {key} is missing",
        f"    commit {commit.short} (main)",
        "      a.png",
        "      b.png",
        "      c.png",
        "      d.png",
        "      e.png",
        "      7 files in all",
        (
            "  To mend this: run `python manage.py check_packs team-a/xrays`, so that packs are asked for again, then "
            "`nearline data sync` where good copies of the files are, or `nearline data put`."
        ),
        (
            "  To mend this: copy the objects back from a backup of the store, where they lie below "
            f"datasets/{dataset.pk}/."
        ),
    ]


def test_what_helps_depends_on_what_is_damaged(dataset, member):
    commit = commit_files(member, dataset, {"a": b"1"})
    records.write_records()
    store = open_dataset_store(dataset)
    store.put(record_key(Dataset.objects.get(pk=dataset.pk).recorded_version), b"{}")
    output = StringIO()

    with pytest.raises(CommandError):
        call_command("fsck", stdout=output)
    store.delete([root_key(commit.root)])
    with pytest.raises(CommandError):
        call_command("fsck", stdout=output)

    advice = [line for line in output.getvalue().splitlines() if "To mend" in line]
    of_record = (
        "  To mend this: change something of the dataset, such as a tag: a new record is written within two minutes."
    )
    of_root = f"  To mend this: copy the objects back from a backup of the store, where they lie below datasets/{dataset.pk}/."
    assert advice == [of_record, of_record, of_root]


def test_a_rebuild_tells_what_came_of_each_dataset(dataset, member):
    commit_files(member, dataset, {"a": b"1"})
    trees.store_tree(actor=member, project=dataset.project, holder="job", files=source_files({"b": b"2"}))
    records.write_records()
    lose_database()

    assert fsck("--rebuild") == ["team-a/~trees: 1 stored tree", "team-a/xrays: 1 commit"]
    assert fsck("--rebuild") == ["team-a/~trees: left as it is", "team-a/xrays: left as it is"]
    assert fsck("--release-trees") == ["1 stored tree released for the next collection."]


def test_a_store_that_is_not_registered_is_named(dataset):
    with pytest.raises(CommandError, match="no store called 'other'"):
        fsck("--store", "other")


def test_a_database_that_is_older_than_the_store_is_told(dataset, member):
    commit_files(member, dataset, {"a": b"1"})
    records.write_records()
    Dataset.objects.update(state_version=1)

    assert fsck("--rebuild") == [
        "team-a/xrays: left as it is",
        "  The store has a newer record of it than the database, which was left as it is.",
    ]


def test_without_a_store_it_says_what_to_do(db):
    assert not Store.objects.exists()

    with pytest.raises(CommandError, match="No store is registered: run setup"):
        fsck()
