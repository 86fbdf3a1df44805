"""Files that are not ours are compared with a commit, and stay as they are."""

import os

import pytest

from client.tests.pod.conftest import FILES, contents
from nearline.pod import copies


def put(folder, files):
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def state_of(folder):
    return {path: (path.lstat().st_mode, path.lstat().st_mtime_ns) for path in folder.rglob("*")}


@pytest.fixture
def existing(server, volume):
    server.commit(FILES)
    put(volume, FILES)
    os.utime(volume / "b", ns=(7, 7))
    return volume


def test_the_very_files_of_the_commit_are_found_whatever_their_modes_and_times(server, pod, existing):
    put(existing, {".snapshot/hourly/b": b"of the file server", "lost+found/x": b""})
    before = state_of(existing)

    code, noted = pod("check", existing)

    root = server.dataset.store.commits[-1]["root"]
    size = sum(map(len, FILES.values()))
    assert (code, noted) == (
        0,
        {
            "root": root,
            "damaged": 0,
            "files_done": 3,
            "bytes_done": size,
            "bytes_shared": size,
            "bytes_copied": 0,
            "bytes_moved": 0,
        },
    )
    assert state_of(existing) == before


def test_what_differs_is_named_and_left_as_it_is(pod, existing):
    put(existing, {"a/one": b"0" * 9000, "c/stray": b"new"})
    (existing / "a/two").unlink()
    (existing / "a/link").symlink_to("one")
    before = contents(existing)

    code, noted = pod("check", existing)

    assert (code, noted["code"]) == (copies.HOPELESS, "client.not_the_commit")
    assert noted["error"].startswith("4 files are not as the commit says: a/one (changed), a/two (missing), ")
    assert {"a/link (stray)", "c/stray (stray)"} == set(noted["error"].removesuffix(".").split(", ")[2:])
    assert contents(existing) == before


def test_what_differs_is_told_though_its_names_are_longer_than_a_pod_can_note(pod, existing, tmp_path):
    put(existing, {f"{number}/{70 * 'я'}": b"" for number in range(12)})

    code, noted = pod("check", existing)

    assert (code, noted["code"]) == (copies.HOPELESS, "client.not_the_commit")
    assert noted["error"].startswith("12 files are not as the commit says: ")
    assert noted["error"].endswith("я…")
    assert (tmp_path / "message").stat().st_size <= 4096  # what a cluster keeps of it


def test_of_a_part_the_others_are_measured_only(pod, existing):
    parts = [pod("check", existing, "--part", f"{number}/30")[0] for number in range(30)]
    put(existing, {"b": b"4"})
    changed = [pod("check", existing, "--part", f"{number}/30")[0] for number in range(30)]

    assert parts == [0] * 30
    assert sorted(changed) == [0] * 29 + [copies.HOPELESS]
