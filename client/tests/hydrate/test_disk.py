"""Trees of few files reach the disk by themselves; others wait for the whole file system."""

import os
from pathlib import Path

import pytest

from nearline.hydrate.folder import sync_tree


@pytest.mark.parametrize(("files", "synced"), [(2, ["", "files", "files/0", "files/1"]), (300, [])])
def test_few_files_are_synced_one_by_one_with_their_folders(tmp_path, monkeypatch, files, synced):
    folder = tmp_path / "tree" / "files"
    folder.mkdir(parents=True)
    for number in range(files):
        (folder / str(number)).write_text("x")
    (tmp_path / "tree" / "link").symlink_to("/nowhere")
    paths = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: paths.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
    )

    sync_tree(tmp_path / "tree")

    assert sorted(path.removeprefix(f"{tmp_path}/tree").lstrip("/") for path in paths) == synced
