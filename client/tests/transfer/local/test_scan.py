"""A folder against a tree: what differs is a suspect, however the range it belongs to is compared."""

import contextlib
import functools
import itertools
import os
import pickle
import shutil
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearline.content.entries import BlobRef, Entry
from nearline.content.hashing import file_id
from nearline.content.manifest import build_range, build_tree, describe_range, read_range
from nearline.transfer.local.scan import Sharing, load_kept_range, scan_folder
from nearline.transfer.local.statcache import StatCache
from nearline.transfer.local.walk import read_rules, walk
from nearline.transfer.progress import Meter, ignore_progress
from nearline.transfer.sync.local_changes import find_changes

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
    assert [(suspect.file.path, suspect.content_id) for suspect in scan.suspects] == [
        (b"cached otherwise", OTHER_ID),
        (b"executable", file_id(b"executable")),
        *link,
        (b"unknown", None),
        (b"written", None),
    ]
    assert [suspect.before.path for suspect in scan.suspects] == [suspect.file.path for suspect in scan.suspects]
    assert [entry.path for entry in scan.removed] == list(more)
    assert cache.find(b"gone") is None


NAMES = st.lists(st.sampled_from(["a", "a-", "a.conflict", "b", "no", "\udcff"]), min_size=1, max_size=3).map("/".join)
KINDS = st.sampled_from(["file", "executable", "link", "pipe", "folder"])


def make(root, kinds):
    """Make what stands at each path, but not below a file."""
    for name, kind in sorted(kinds.items()):
        path = root / name
        with contextlib.suppress(FileExistsError, NotADirectoryError):
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "folder":
                path.mkdir(exist_ok=True)
            elif kind == "link":
                path.symlink_to("nothing")
            elif kind == "pipe":
                os.mkfifo(path)
            else:
                path.touch(0o755 if kind == "executable" else 0o644, exist_ok=False)
                path.write_bytes(os.fsencode(name))


def write_ranges(folder, entries, lengths):
    """Write a tree whose ranges have these lengths, which may repeat; return the rows of its root."""
    folder.mkdir()
    rows = []
    rest = iter(entries)
    for length in itertools.cycle(lengths):
        if not (piece := list(itertools.islice(rest, length))):
            break
        encoded = build_range(piece)
        (folder / encoded.range_id).write_bytes(encoded.data)
        rows.append(describe_range(piece, encoded.range_id))
    return rows


def scan_with(root, cache_path, ranges, tree, sharing=None):
    """Return what a scan finds, and what the cache knows afterwards."""
    with contextlib.closing(StatCache(cache_path)) as cache:
        load = functools.partial(load_kept_range, ranges)
        found = scan_folder(os.fsencode(root), read_rules(os.fsencode(root)), cache, tree, load, sharing=sharing)
        return vars(found) | {"suspects": list(found.suspects)}, list(cache.list_files()), cache.list_digests()


@settings(max_examples=60, deadline=None)
@given(
    here=st.dictionaries(NAMES, KINDS, max_size=12),
    listed=st.sets(NAMES, max_size=8),
    cached=st.sets(NAMES),
    lengths=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    takers=st.lists(st.integers(0, 2), min_size=1, max_size=6),
)
def test_a_shared_scan_finds_what_one_process_finds(tmp_path_factory, *, here, listed, cached, lengths, takers):
    base = tmp_path_factory.mktemp("scan")
    root, ranges, one, other = (base / name for name in ("folder", "ranges", "one.db", "other.db"))
    root.mkdir()
    make(root, here)
    (root / ".nearlineignore").write_text("no\n")
    found = list(walk(os.fsencode(root), read_rules(os.fsencode(root)), []))
    names = {os.fsencode(name) for name in listed} | {file.path for file in found[::2]}
    names = [name for name in sorted(names) if not any(name.startswith(other + b"/") for other in names)]
    tree = write_ranges(ranges, [entry(name, name) for name in names], lengths)
    with contextlib.closing(StatCache(one)) as cache:
        hashed = [(file, file_id(file.path)) for file in found if os.fsdecode(file.path) in cached or file.size > 1]
        cache.remember([*hashed, *((file._replace(path=b"gone"), OTHER_ID) for file in found[:1])], at_ns=2**62)
    shutil.copy(one, other)

    def share(tasks, here, elsewhere, processes):
        """Let this process and two that have what travels to them take the tasks in turn."""
        scanners = [here, *(pickle.loads(pickle.dumps(elsewhere)) for _ in range(processes - 1))]
        return [
            pickle.loads(pickle.dumps(scanners[taker](pickle.loads(pickle.dumps(task)))))
            for task, taker in zip(tasks, itertools.cycle(takers), strict=False)
        ]

    for _ in range(2):  # the second time with the digests of the first
        alone = scan_with(root, one, ranges, tree)
        assert scan_with(root, other, ranges, tree, Sharing(3, ranges, share)) == alone


def test_what_changes_between_two_parts_of_a_scan_is_looked_at_as_it_is_then(tmp_path):
    root, ranges = tmp_path / "folder", tmp_path / "ranges"
    make(root, dict.fromkeys(["a", "b/a", "b/b", "c", "d"], "file"))
    tree = write_ranges(ranges, [entry(name, name) for name in (b"a", b"b/a", b"b/b", b"c", b"d")], [1])

    def share(tasks, here, elsewhere, processes):
        scanners = [here, pickle.loads(pickle.dumps(elsewhere))]
        results = [scanners[number % processes](task) for number, task in enumerate(tasks[:2])]
        shutil.rmtree(root / "b")
        (root / "c").unlink()
        make(root, {"c/a": "file"})
        return results + [scanners[number % processes](task) for number, task in enumerate(tasks[2:])]

    found, _, _ = scan_with(root, tmp_path / "cache.db", ranges, tree, Sharing(2, ranges, share))

    assert [suspect.file.path for suspect in found["suspects"]] == [b"a", b"b/a", b"d"]
    assert [entry.path for entry in found["removed"]] == [b"b/b"]
    assert [skip.path for skip in found["skipped"]] == [b"c"]


@pytest.mark.parametrize("change", [os.unlink, lambda path: Path(path).write_bytes(b"later")], ids=["left", "edited"])
def test_what_changes_between_scan_and_reading_leaves_the_digest_of_its_range_untold(tmp_path, cache, change):
    root, ranges = tmp_path / "folder", tmp_path / "ranges"
    make(root, dict.fromkeys(["a", "b", "c", "d"], "file"))
    for name in "abcd":
        os.utime(root / name, ns=(1, 1))
    tree = write_ranges(ranges, [entry(name, b"before") for name in (b"a", b"b", b"c", b"d")], [2])
    load = functools.partial(load_kept_range, ranges)
    found = scan_folder(os.fsencode(root), read_rules(os.fsencode(root)), cache, tree, load)
    change(root / "b")

    find_changes(os.fsencode(root), found, cache, threads=1, meter=Meter(ignore_progress, ""))

    assert found.unsettled == {b"b"}
    assert list(found.digests_of(tree)) == [tree[1].range_id]
