"""A reader that shares no code with the product reads what the product writes, and refuses what is damaged."""

import ast
import os
import random
import stat
import sys
import tempfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.adapters.folder import FolderStore
from datasets.adapters.folder_marks import STORE_MARK, ensure_mark
from datasets.adapters.hydration import hydrate
from datasets.adapters.scoped import ScopedStore
from datasets.engine.layout import (
    CommitRecord,
    DatasetRecord,
    commit_key,
    dataset_prefix,
    pack_key,
    range_key,
    record_key,
    root_key,
)
from nearline.content.paths import find_clashes
from tests.engine.content.strategies import PATHS
from tests.factories.datasets import PackedTree

READER = Path(__file__).parents[3] / "examples/read_store.py"
DATASET = "ds_0123456789abcdefghjk"
CONTENTS = st.one_of(
    st.binary(max_size=40),
    st.tuples(st.binary(max_size=9), st.sampled_from([0o644, 0o755])),
    st.sampled_from(["x", "./y", "a/b"]),
)


@pytest.fixture(scope="module")
def reader():
    spec = spec_from_file_location("read_store", READER)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@st.composite
def trees(draw):
    paths = sorted(draw(st.sets(PATHS, max_size=8)))
    clashing = {clash.names[1] for clash in find_clashes(paths)}
    return {os.fsdecode(path): draw(CONTENTS) for path in paths if path not in clashing}


def open_copy(copy: Path) -> ScopedStore:
    """Return the dataset's part of a store in a folder."""
    copy.mkdir(exist_ok=True)
    return ScopedStore(
        FolderStore(copy, store_id="store", name="main", mark=ensure_mark(copy, STORE_MARK), base_url=""),
        dataset_prefix(DATASET),
    )


def store_tree(copy: Path, tree: PackedTree) -> ScopedStore:
    """Store a tree as the one commit of the branch main of team-a/xrays."""
    store = open_copy(copy)
    tree.put_into(store)
    commit = CommitRecord(DATASET, tree.root_id, None, "someone", "first", "cli", 1_700_000_000_000)
    store.put(commit_key(commit.commit_id), commit.canonical_json())
    record = DatasetRecord(
        dataset=DATASET,
        version=2,
        project="proj_0123456789abcdefghjk",
        project_name="team-a",
        name="xrays",
        description="",
        kind="general",
        is_internal=False,
        default_branch="main",
        idle_days=None,
        created_at_ms=1_700_000_000_000,
        deleted_at_ms=None,
        branches={"main": commit.commit_id},
        tags={"v1": commit.commit_id},
    )
    store.put(record_key(record.version), record.encode())
    return store


def listing_of(folder: Path) -> dict[str, tuple]:
    """Return what every file is: the target of a link, or mode, time and content."""
    found = {}
    for path in folder.rglob("*"):
        facts = path.lstat()
        if path.is_symlink():
            found[str(path.relative_to(folder))] = (path.readlink(),)
        elif path.is_file():
            found[str(path.relative_to(folder))] = (stat.S_IMODE(facts.st_mode), facts.st_mtime_ns, path.read_bytes())
    return found


def read_both(reader, folder: Path, files, **options) -> tuple[dict, dict]:
    """Return a tree as the second reader and as the product write it."""
    tree = PackedTree(files, **options)
    if "on" in options:
        options["on"].put_into(open_copy(folder / "copy"))
    store = store_tree(folder / "copy", tree)
    reader.main(str(folder / "copy"), "team-a/xrays", "main", str(folder / "theirs"))
    (folder / "ours").mkdir()
    hydrate(store, tree.entries, folder / "ours", read_only=False)
    return listing_of(folder / "theirs"), listing_of(folder / "ours")


@settings(max_examples=30)
@given(files=trees(), others=trees().filter(bool), is_delta=st.booleans())
def test_both_read_any_tree_alike(reader, files, others, is_delta):
    """Also where its range is stored as what it changes of another one, of which only the paths may be the same."""
    base = {"on": PackedTree(others, pack_bytes=200)} if is_delta else {}
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = read_both(reader, Path(folder), files, pack_bytes=200, **base)

    assert theirs == ours
    assert set(ours) == set(files)


def test_both_read_files_of_several_chunks_and_trees_of_several_ranges_alike(reader, tmp_path):
    files = {f"{number:06}": b"%d" % (number % 7) for number in range(4_100)}
    files["large"] = random.Random(2).randbytes(20 << 20)
    assert len(PackedTree(files).tree.ranges) == 2

    theirs, ours = read_both(reader, tmp_path, files)

    assert theirs == ours
    assert len(ours) == len(files)


def test_it_lists_what_there_is(reader, tmp_path, capsys):
    store = store_tree(tmp_path, PackedTree({"a": b"1"}))
    (commit,) = [blob.key.removeprefix("commits/") for blob in store.list_blobs("commits/")]

    reader.main(str(tmp_path))

    assert capsys.readouterr().out.split("\n") == [
        "team-a/xrays",
        f"    v1={commit[:12]}",
        f"    main={commit[:12]}",
        f"    {commit[:12]} someone: 'first'",
        "",
    ]


def test_it_says_so_where_a_pack_is_not_there_as_that_of_an_import_in_place(reader, tmp_path):
    tree = PackedTree({"a": b"1"})
    store = store_tree(tmp_path / "copy", tree)
    name = next(iter(tree.packs))
    store.delete([pack_key(name)])

    with pytest.raises(SystemExit, match=rf"^The pack {name} is not here\. What was imported in place has a map"):
        reader.main(str(tmp_path / "copy"), "team-a/xrays", "main", str(tmp_path / "out"))


@pytest.mark.parametrize("kind", ["pack", "range", "root", "commit", "record"])
def test_it_refuses_what_is_damaged(reader, kind, tmp_path):
    tree = PackedTree({"a": b"1", "b/c": b"22"})
    store = store_tree(tmp_path / "copy", tree)
    (commit,) = [blob.key for blob in store.list_blobs("commits/")]
    key = {
        "pack": pack_key(next(iter(tree.packs))),
        "range": range_key(tree.tree.ranges[0].range_id),
        "root": root_key(tree.root_id),
        "commit": commit,
        "record": record_key(2),
    }[kind]
    data = bytearray(store.get(key))
    # Of a range the sixteenth byte of the content ids, which are stored as they are.
    position = data.index(tree.entries[0].content_id) + 16 if kind == "range" else len(data) // 2
    data[position] ^= 1
    store.put(key, bytes(data))

    with pytest.raises(SystemExit, match="is not as the format says"):
        reader.main(str(tmp_path / "copy"), "team-a/xrays", "main", str(tmp_path / "files"))


def test_it_is_short_and_needs_nothing_of_ours():
    text = READER.read_text()
    modules = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(text))
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [])
        + ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [])
    }

    assert len(text.splitlines()) <= 150
    assert modules - sys.stdlib_module_names == {"blake3"}
