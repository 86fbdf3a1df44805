"""A folder against a tree: what differs is a suspect, however the range it belongs to is compared."""

import contextlib
import os
import time

import pytest

from nearline.content.entries import BlobRef, Entry
from nearline.content.hashing import file_id
from nearline.content.manifest import build_tree, read_range
from nearline.transfer.local.ignore import read_rules
from nearline.transfer.local.scan import scan_folder
from nearline.transfer.local.statcache import StatCache
from nearline.transfer.local.walk import walk

OTHER_ID = file_id(b"other")


def entry(path: bytes, content: bytes, mode: int = 0o644) -> Entry:
    content_id = file_id(content)
    return Entry(path, mode, len(content), 0, content_id, blobs=(BlobRef(content_id, bytes(32), 0, len(content)),))


@pytest.fixture
def cache(tmp_path):
    with contextlib.closing(StatCache(tmp_path / "cache.db")) as cache:
        yield cache


@pytest.mark.parametrize("more", [(), (b"removed",)], ids=["same paths", "other paths"])
@pytest.mark.parametrize("is_linked", [False, True], ids=["files", "a link"])
def test_what_may_differ_from_a_range_is_a_suspect_and_nothing_else(tmp_path, cache, more, is_linked):
    names = [b"cached otherwise", b"executable", b"linked", b"same", b"unknown", b"written"]
    root = tmp_path / "folder"
    root.mkdir()
    for name in names:
        (root / os.fsdecode(name)).write_bytes(name)
    rules = read_rules(os.fsencode(root))
    found = {file.path: file for file in walk(os.fsencode(root), rules, [])}
    ids = {name: OTHER_ID if name == b"cached otherwise" else file_id(name) for name in names if name != b"unknown"}
    gone = found[b"same"]._replace(path=b"gone")
    later_ns = time.time_ns() + 10**12
    cache.remember([*((found[name], ids[name]) for name in ids), (gone, OTHER_ID)], at_ns=later_ns)
    (root / "written").write_bytes(b"written")
    os.utime(root / "written", ns=(1, 1))
    if is_linked:
        (root / "linked").unlink()
        (root / "linked").symlink_to("same")
    tree = build_tree(entry(name, name, 0o755 if name == b"executable" else 0o644) for name in sorted([*names, *more]))

    scan = scan_folder(
        os.fsencode(root), rules, cache, tree.ranges, lambda name: read_range(tree.objects[name]).entries
    )

    link = [(b"linked", file_id(b"same"))] if is_linked else []
    assert [(suspect.found.path, suspect.content_id) for suspect in scan.suspects] == [
        (b"cached otherwise", OTHER_ID),
        (b"executable", file_id(b"executable")),
        *link,
        (b"unknown", None),
        (b"written", None),
    ]
    assert [suspect.before.path for suspect in scan.suspects] == [suspect.found.path for suspect in scan.suspects]
    assert [entry.path for entry in scan.removed] == list(more)
    assert cache.find(b"gone") is None
