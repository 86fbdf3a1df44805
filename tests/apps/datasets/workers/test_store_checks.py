"""A check of a store names what is missing or damaged at its level, and who needs it."""

import pytest

from datasets.adapters.folder import FolderStore
from datasets.adapters.opening import open_dataset_store, open_store
from datasets.engine.layout import commit_key, pack_key, range_key, record_key, root_key
from datasets.models import Pack
from datasets.selectors.trees import TreeReader
from datasets.services import commits as services
from datasets.services import trees
from datasets.workers import records, store_checks
from datasets.workers.store_checks import Damage, Level
from tests.factories.datasets import PackedTree, commit_files, make_dataset, source_files, upload_tree


@pytest.fixture
def commits(dataset, member):
    """Two commits, each with a pack of its own."""
    first = commit_files(member, dataset, {"a/one": b"1", "two": b"22"}, message="first")
    second = commit_files(member, dataset, {"a/one": b"1", "two": b"22", "three": b"333"}, message="second")
    records.write_records()
    dataset.refresh_from_db()
    return first, second


def check(store_row, level) -> list[Damage]:
    return [damage for report in store_checks.check_store(open_store(store_row), level) for damage in report.damages]


def range_of(commit) -> str:
    return TreeReader(commit.dataset).read_root(commit.root)[0].range_id


def spoil(dataset, key, position=0):
    store = open_dataset_store(dataset)
    data = bytearray(store.get(key))
    data[position] ^= 1
    store.put(key, bytes(data))


@pytest.mark.parametrize("level", list(Level))
def test_a_whole_store_has_no_damage(level, commits, store_row):
    (report,) = store_checks.check_store(open_store(store_row), level)

    assert (report.name, report.trees, report.ranges, list(report.damages)) == ("team-a/xrays", 2, 2, [])


def test_what_is_looked_at_is_counted(commits, dataset, store_row):
    (report,) = store_checks.check_store(open_store(store_row), Level.MANIFESTS)

    sizes = list(Pack.objects.filter(dataset=dataset).values_list("size_bytes", flat=True))
    assert (report.packs, report.pack_bytes) == (len(sizes), sum(sizes))


@pytest.mark.parametrize(
    ("key_of", "levels"),
    [
        (lambda commit: record_key(commit.dataset.recorded_version), set(Level)),
        (lambda commit: commit_key(commit.id), set(Level)),
        (lambda commit: root_key(commit.root), set(Level)),
        (lambda commit: range_key(range_of(commit)), {Level.MANIFESTS, Level.PACKS}),
    ],
    ids=["record", "commit", "root", "range"],
)
def test_bytes_that_changed_are_named_from_their_level_on(key_of, levels, commits, dataset, store_row):
    _, second = commits
    key = key_of(second)
    spoil(dataset, key, 30)

    damaged = {level: {damage.key: damage.why for damage in check(store_row, level)} for level in Level}

    assert {level for level in Level if damaged[level].get(key, "").startswith("is damaged")} == levels


def test_a_root_or_range_is_named_with_the_commit_that_needs_it(commits, dataset, store_row):
    first, second = commits
    spoil(dataset, root_key(first.root))
    spoil(dataset, range_key(range_of(second)), 30)

    damages = {damage.key: damage for damage in check(store_row, Level.MANIFESTS)}

    assert damages[root_key(first.root)].trees == [f"commit {first.short}"]
    assert damages[range_key(range_of(second))].trees == [f"commit {second.short} (main)"]
    assert damages[range_key(range_of(second))].file_count == 3


def test_a_changed_pack_is_named_with_the_files_of_all_commits_that_need_it(commits, dataset, member, store_row):
    first, _ = commits
    third = services.revert(actor=member, dataset=dataset, commit=first, branch_name="main")
    records.write_records()
    sha256 = PackedTree({"a/one": b"1", "two": b"22"}).packs.popitem()[0]
    spoil(dataset, pack_key(sha256))

    damages = {level: check(store_row, level) for level in Level}

    assert (damages[Level.OBJECTS], damages[Level.MANIFESTS]) == ([], [])
    assert damages[Level.PACKS] == [
        Damage(
            key=pack_key(sha256),
            why="is damaged: its bytes are not those of its name",
            trees=[f"commit {first.short}", f"commit {third.short} (main)"],
            files=[b"a/one"],
            file_count=1,
        )
    ]


def test_a_missing_pack_and_one_that_is_too_short_are_found_without_reading_packs(commits, dataset, store_row):
    first, second = commits
    missing = PackedTree({"a/one": b"1", "two": b"22"}).packs.popitem()[0]
    (short,) = Pack.objects.exclude(sha256=missing).values_list("sha256", flat=True)
    store = open_dataset_store(dataset)
    store.delete([pack_key(missing)])
    store.put(pack_key(short), b"1")

    damages = {damage.key: damage for damage in check(store_row, Level.MANIFESTS)}

    assert damages[pack_key(missing)].why == "is missing"
    assert damages[pack_key(missing)].trees == [f"commit {first.short}"]
    assert damages[pack_key(missing)].files == [b"a/one", b"two"]
    assert damages[pack_key(short)].why == "is too short: 1 bytes"
    assert damages[pack_key(short)].trees == [f"commit {second.short} (main)"]


def test_a_missing_range_is_found_in_the_listing(commits, dataset, store_row):
    _, second = commits
    open_dataset_store(dataset).delete([range_key(range_of(second))])

    (damage,) = check(store_row, Level.OBJECTS)

    assert damage == Damage(
        range_key(range_of(second)), "is missing", [f"commit {second.short} (main)"], [b"a/one", b"two"], 3
    )


@pytest.mark.parametrize("why", ["is damaged", "is based on a missing range"])
def test_a_range_whose_base_is_damaged_or_missing_is_named_with_who_needs_it(why, dataset, member, store_row):
    files = {"a/one": b"1", "two": b"22"}
    first = commit_files(member, dataset, files)
    second = commit_files(member, dataset, {**files, "three": b"333"}, on=PackedTree(files))
    records.write_records()
    base, delta = range_of(first), range_of(second)
    if why == "is damaged":
        spoil(dataset, range_key(base), -1)
    else:
        open_dataset_store(dataset).delete([range_key(base)])

    damages = {damage.key: damage for damage in check(store_row, Level.MANIFESTS)}

    assert sorted(damages) == sorted([range_key(base), range_key(delta)])
    assert damages[range_key(delta)].why.startswith(why)
    assert damages[range_key(delta)].trees == [f"commit {second.id[:8]} (main)"]


def test_damage_of_a_borrowed_pack_is_told_to_both_who_need_it(dataset, member, store_row):
    tree = trees.store_tree(
        actor=member, project=dataset.project, holder="job", files=source_files({"model.bin": b"weights"})
    )
    models = make_dataset(member, dataset.project, "models")
    commit = trees.commit_tree(actor=member, tree=tree, dataset=models, branch="main", message="kept")
    records.write_records()
    spoil(tree.dataset, pack_key(Pack.objects.get(dataset=tree.dataset).sha256))

    reports = {report.name: report for report in store_checks.check_store(open_store(store_row), Level.PACKS)}

    assert {name: [damage.trees for damage in report.damages] for name, report in reports.items()} == {
        "team-a/xrays": [],
        "team-a/~trees": [[f"stored tree {tree.root[:8]}"]],
        "team-a/models": [[f"commit {commit.short} (main)"]],
    }


def test_what_no_tree_needs_is_not_looked_at(commits, dataset, member, store_row):
    garbage = PackedTree({"c": b"garbage"})
    upload_tree(member, dataset, garbage)
    spoil(dataset, pack_key(next(iter(garbage.packs))))

    assert check(store_row, Level.PACKS) == []


@pytest.mark.parametrize("level", list(Level))
def test_what_a_lagging_listing_does_not_show_yet_is_not_missing(level, member, dataset, store_row, monkeypatch):
    commit_files(member, dataset, {"one": b"1"})
    records.write_records()
    listed = list(open_store(store_row).list_blobs(""))
    commit_files(member, dataset, {"one": b"1", "two": b"22"})
    records.write_records()
    monkeypatch.setattr(FolderStore, "list_blobs", lambda _store, prefix: iter(listed))

    (report,) = store_checks.check_store(open_store(store_row), level)

    assert (report.name, report.trees, report.ranges, list(report.damages)) == ("team-a/xrays", 2, 2, [])
