"""The page that describes the format tells the truth."""

import re
from pathlib import Path

import pytest

from datasets.engine.layout import CommitRecord, DatasetRecord, record_key
from nearline.content import manifest, packs
from nearline.content.hashing import EMPTY_ID
from nearline.content.manifest import BlobRef, Entry, EntryKind
from nearline.content.range_deltas import find_base

PAGE = (Path(__file__).parents[3] / "docs/reference/format.md").read_text()
TIME = 1_700_000_000_000_000_000


@pytest.fixture(scope="module")
def vectors():
    blocks = [block.removeprefix("text\n").strip() for block in PAGE.split("```")[1::2]]
    return dict(re.split(r"  +", line, maxsplit=1) for block in blocks for line in block.splitlines())


@pytest.fixture(scope="module")
def pack():
    builder = packs.PackBuilder()
    builder.add(b"hello")
    builder.add(b"world!")
    return builder.finish()


def entries(pack):
    def file(blob, path, mode, mtime_ns):
        ref = BlobRef(blob.content_id, pack.sha256, blob.offset, blob.size)
        return Entry(path, mode, blob.size, mtime_ns, blob.content_id, EntryKind.FILE, (ref,))

    hello, world = pack.blobs
    return [
        file(hello, b"a/hello.txt", 0o644, TIME),
        manifest.new_symlink(b"a/link", b"hello.txt", TIME + 1),
        file(world, b"a/world.txt", 0o755, TIME + 3),
        Entry(b"b.bin", 0o755, 0, TIME + 2, EMPTY_ID),
    ]


def test_the_pack_of_the_page_is_the_pack_that_is_built(vectors, pack):
    assert (vectors["pack sha256"], vectors["pack"]) == (pack.name, pack.data.hex())


def test_the_range_of_the_page_is_read_as_it_says(vectors, pack):
    data = bytes.fromhex(vectors["range"])

    assert manifest.decode_range(data) == entries(pack)
    assert manifest.range_id(data) == vectors["range id"]
    assert manifest.build_range(entries(pack)).range_id == vectors["range id"]


def test_the_delta_of_the_page_makes_the_range_that_it_says(vectors, pack):
    hello, link, world, _ = entries(pack)
    after, base = [hello._replace(mode=0o755), link, world], bytes.fromhex(vectors["range"])
    objects = {vectors["range id"]: base, vectors["delta id"]: bytes.fromhex(vectors["delta"])}

    assert list(manifest.load_range(vectors["delta id"], objects.__getitem__)) == after
    assert manifest.build_range(after).range_id == vectors["delta id"]
    assert find_base(objects[vectors["delta id"]]) == vectors["range id"]


def test_the_roots_of_the_page_are_the_roots_that_are_built(vectors, pack):
    tree = manifest.build_tree(entries(pack))

    assert (vectors["root id"], vectors["root"]) == (tree.root_id, tree.root.hex())
    assert manifest.build_tree([]).root_id == vectors["empty root id"]


def test_the_commit_of_the_page_is_the_commit_that_is_recorded(vectors):
    record = CommitRecord(
        "ds_01m7yqa3xwfhvah6trk0", vectors["root id"], None, "ada", "first ✓", "cli", 1_700_000_000_000
    )

    assert (vectors["commit id"], vectors["commit"]) == (record.commit_id, record.canonical_json().decode())
    assert CommitRecord.read(vectors["commit"].encode(), vectors["commit id"]) == record


def test_the_record_of_the_page_is_the_record_that_is_written(vectors):
    record = DatasetRecord(
        dataset="ds_01m7yqa3xwfhvah6trk0",
        version=3,
        project="proj_01m7yqa3xwfhvah6trk0",
        project_name="team-a",
        name="xrays",
        description="",
        kind="images",
        is_internal=False,
        default_branch="main",
        idle_days=None,
        created_at_ms=1_700_000_000_000,
        deleted_at_ms=None,
        branches={"main": vectors["commit id"], "dev": None},
        tags={},
    )
    data = f"{vectors['record line 1']}\n{vectors['record line 2']}".encode()

    assert (vectors["record key"], data) == (record_key(record.version), record.encode())
    assert DatasetRecord.decode(data) == record


def test_the_boundaries_of_the_page_are_the_boundaries():
    found = [f"{n:06}" for n in range(16_000) if manifest.is_boundary(b"%06d" % n)]

    assert found == ["000700", "004037", "007109", "015664"]
    assert "`000700`, `004037`, `007109` and `015664`" in PAGE
