"""Looking into commits."""

import random
import threading
from types import SimpleNamespace

import pytest

from accounts.errors import ProjectNotFound
from core.errors import InvalidInput
from datasets.adapters.opening import open_dataset_store
from datasets.engine.browse import FolderItem
from datasets.engine.layout import pack_key, range_key, root_key
from datasets.engine.range_names import find_holding
from datasets.errors import ContentCorrupt, FileNotInCommit
from datasets.selectors import differences, files, trees
from nearline.content.hashing import file_id
from nearline.content.manifest import Entry, build_tree
from tests.factories.datasets import commit_files

LARGE = random.Random(7).randbytes(20 << 20)


@pytest.fixture
def commit(dataset, member):
    names = {f"many/{number:03}.png": b"x" * number for number in range(50)}
    return commit_files(member, dataset, {**names, "readme.txt": b"hello world", "many/deep/a.txt": b"deep", "z": b""})


@pytest.fixture(autouse=True)
def _nothing_kept():
    trees.forget()


def test_the_top_folder_lists_its_children_with_sums(commit, member):
    page = files.list_folder(member, commit, path=b"", cursor=None, limit=10)

    assert [item.path for item in page.items] == [b"many", b"readme.txt", b"z"]
    assert page.items[0] == FolderItem(b"many", 51, sum(range(50)) + 4)
    assert page.next_cursor is None


@pytest.mark.parametrize("path", [b"many", b"many/", b"/many"])
def test_a_folder_comes_page_by_page(commit, member, path):
    names, cursor = [], None
    while True:
        page = files.list_folder(member, commit, path=path, cursor=cursor, limit=7)
        names += [item.path for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break

    assert names == [b"many/%03d.png" % number for number in range(50)] + [b"many/deep"]


@pytest.mark.parametrize("path", [b"none", b"readme.txt", b"man", b"../many"])
def test_what_is_no_folder_is_said(commit, member, path):
    with pytest.raises(FileNotInCommit):
        files.list_folder(member, commit, path=path, cursor=None, limit=7)


def test_a_damaged_cursor_is_said(commit, member):
    with pytest.raises(InvalidInput):
        files.list_folder(member, commit, path=b"", cursor="???", limit=7)


def test_files_are_found_by_pattern(commit, member):
    page = files.list_matching(member, commit, glob=b"**/*.txt", cursor=None, limit=10)

    assert [item.path for item in page.items] == [b"many/deep/a.txt", b"readme.txt"]


def test_a_range_whose_names_were_searched_is_at_hand_for_what_was_found(commit, dataset):
    reader = trees.TreeReader(dataset)
    [row] = reader.read_root(commit.root)
    reader.load_names(row.range_id)
    open_dataset_store(dataset).delete([range_key(row.range_id)])

    assert reader.load_range(row.range_id)[-1].path == b"z"


def test_names_that_are_searched_range_by_range_are_read_ahead(dataset, monkeypatch):
    content = file_id(b"")
    tree = build_tree([Entry(b"%06d" % number, 0o644, 0, 0, content, blobs=()) for number in range(60_000)])
    store, is_asked = open_dataset_store(dataset), threading.Event()
    for range_id, data in tree.objects.items():
        store.put(range_key(range_id), data)
    store.put(root_key(tree.root_id), tree.root)
    reader = trees.TreeReader(dataset)
    first, second, third, *rest = reader.read_root(tree.root_id)

    def get(key):
        if key == range_key(third.range_id):
            is_asked.set()
        if key == range_key(second.range_id):
            assert is_asked.wait(60)
        if key == range_key(rest[-1].range_id):
            return b"damaged"
        return store.get(key)

    monkeypatch.setattr(reader, "_store", SimpleNamespace(get=get))

    names = [reader.load_names(row.range_id) for row in (first, second, third, *rest[:-1])]

    assert sum(len(list(find_holding(each, b""))) for each in names) == int(rest[-1].first_path)
    with pytest.raises(ContentCorrupt):
        reader.load_names(rest[-1].range_id)


def test_a_file_is_read_whole_and_in_part(commit, member):
    content = files.open_file(member, commit, path=b"readme.txt")

    assert b"".join(content.read()) == b"hello world"
    assert b"".join(content.read(6, 3)) == b"wor"
    assert b"".join(content.read(6, 300)) == b"world"


def test_an_empty_file_is_read(dataset, member):
    commit = commit_files(member, dataset, {"empty": b""})

    assert b"".join(files.open_file(member, commit, path=b"empty").read()) == b""


def test_a_large_file_is_read_across_its_pieces(dataset, member):
    commit = commit_files(member, dataset, {"large": LARGE})
    content = files.open_file(member, commit, path=b"large")
    seam = content.entry.blobs[0].size

    assert b"".join(content.read()) == LARGE
    assert b"".join(content.read(seam - 5, 10)) == LARGE[seam - 5 : seam + 5]


def test_a_part_of_a_large_file_reads_only_the_pieces_it_needs(dataset, member):
    commit = commit_files(member, dataset, {"large": LARGE})
    content = files.open_file(member, commit, path=b"large")
    last = content.entry.blobs[-1]
    store = open_dataset_store(dataset)
    store.delete({pack_key(blob.pack.hex()) for blob in content.entry.blobs if blob.pack != last.pack})

    assert b"".join(content.read(len(LARGE) - 4, 4)) == LARGE[-4:]


def test_damaged_bytes_are_never_handed_on(commit, dataset, member):
    store = open_dataset_store(dataset)
    content = files.open_file(member, commit, path=b"readme.txt")
    key = pack_key(content.entry.blobs[0].pack.hex())
    store.put(key, store.get(key).replace(b"hello", b"jello"))

    with pytest.raises(ContentCorrupt, match=r"readme\.txt"):
        content.read()


@pytest.mark.parametrize("part", ["root", "range"])
def test_a_damaged_manifest_is_found(commit, dataset, member, part):
    store = open_dataset_store(dataset)
    key = (
        root_key(commit.root)
        if part == "root"
        else range_key(trees.TreeReader(dataset).read_root(commit.root)[0].range_id)
    )
    trees.forget()
    data = bytearray(store.get(key))
    data[len(data) // 2] ^= 1
    store.put(key, bytes(data))

    with pytest.raises(ContentCorrupt):
        files.list_folder(member, commit, path=b"", cursor=None, limit=10)


def test_a_missing_file_is_said(commit, member):
    with pytest.raises(FileNotInCommit):
        files.open_file(member, commit, path=b"many")


def test_differences_come_with_counts_and_in_pages(commit, dataset, member):
    before = {f"many/{number:03}.png": b"x" * number for number in range(50)}
    after = {**before, "many/003.png": b"edited", "new": b"12"}
    other = commit_files(member, dataset, after)

    first = differences.get_differences(member, commit, other, cursor=None, limit=2)
    second = differences.get_differences(member, commit, other, cursor=first.page.next_cursor, limit=9)

    assert (first.added, first.removed, first.changed) == (1, 3, 1)
    assert [(change.path, files.kind_of(change)) for change in (*first.page.items, *second.page.items)] == [
        (b"many/003.png", "changed"),
        (b"many/deep/a.txt", "removed"),
        (b"new", "added"),
        (b"readme.txt", "removed"),
        (b"z", "removed"),
    ]
    assert second.page.next_cursor is None


def test_an_unchanged_range_is_read_by_no_diff(dataset, member):
    many = {f"{number:05}": b"" for number in range(40_000)}
    first = commit_files(member, dataset, many)
    second = commit_files(member, dataset, {**many, "39999": b"edited"})
    reader = trees.TreeReader(dataset)
    ids = [{row.range_id for row in reader.read_root(commit.root)} for commit in (first, second)]
    shared = ids[0] & ids[1]
    open_dataset_store(dataset).delete(map(range_key, shared))
    trees.forget()

    found = differences.get_differences(member, first, second, cursor=None, limit=5)

    assert shared
    assert found.changed == 1


def test_a_stranger_sees_no_files(commit, make_actor):
    stranger = make_actor(None)

    for refused in (
        lambda: files.list_folder(stranger, commit, path=b"", cursor=None, limit=1),
        lambda: files.list_matching(stranger, commit, glob=b"**", cursor=None, limit=1),
        lambda: files.open_file(stranger, commit, path=b"readme.txt"),
        lambda: differences.get_differences(stranger, commit, commit, cursor=None, limit=1),
    ):
        with pytest.raises(ProjectNotFound):
            refused()
