"""What pods do on a volume that many copies share: a folder for each, which appears and leaves in one step."""

import json
import os
import random

import pytest

from client.tests.deep_folders import deep_folder
from client.tests.pod.conftest import FILES, contents, counts
from nearline.errors import Denied

AFTER = {"a/one": FILES["a/one"], "moved/two": FILES["a/two"], "c": b"4" * 100}


@pytest.fixture
def first(server, pod, volume):
    """Fill the copy `cc-1` with FILES."""
    server.commit(FILES)
    return pod("fill", volume, "--copy", "cc-1")


def fill_second(server, pod, volume):
    server.commit(AFTER)
    return pod("fill", volume, "--copy", "cc-2", "--base", "cc-1")


def inode_of(path) -> int:
    return path.stat().st_ino


def damage(path, content: bytes) -> None:
    """Change what a file holds, and let it look as if nobody had."""
    before = path.stat()
    path.chmod(0o644)
    path.write_bytes(content)
    path.chmod(before.st_mode & 0o777)
    os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))


def test_a_copy_is_a_folder_with_its_files_and_a_mark(first, volume):
    code, noted = first

    assert (code, counts(noted)) == (0, (18_001, 0, 0, 18_001))
    assert contents(volume / "cc-1/files") == FILES
    assert json.loads((volume / "cc-1/READY").read_text())["root"] == noted["root"]
    assert [path.name for path in volume.iterdir()] == ["cc-1"]


def test_a_copy_that_is_ready_is_told_again_and_not_read(server, first, pod, volume):
    server.dataset.store.fail("get", *[Denied("No.", code="test.no") for _ in range(50)])

    assert pod("fill", volume, "--copy", "cc-1") == first


def test_what_both_have_is_linked_also_under_another_name(server, first, pod, volume):
    code, noted = fill_second(server, pod, volume)

    assert (code, counts(noted)) == (0, (18_100, 18_000, 0, 100))
    assert contents(volume / "cc-2/files") == AFTER
    assert inode_of(volume / "cc-2/files/moved/two") == inode_of(volume / "cc-1/files/a/two")
    assert contents(volume / "cc-1/files") == FILES


def test_where_nothing_can_be_linked_it_is_copied_and_what_was_written_to_is_fetched(
    server, first, pod, volume, monkeypatch
):
    def refuse(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    damage(volume / "cc-1/files/a/two", b"x" * 9000)
    monkeypatch.setattr(os, "link", refuse)

    code, noted = fill_second(server, pod, volume)

    assert (code, counts(noted)) == (0, (18_100, 0, 9000, 9100))
    assert contents(volume / "cc-2/files") == AFTER


@pytest.mark.parametrize("reads", [1, 3, 4])
def test_a_pod_goes_on_where_another_was_killed_and_the_copy_is_marked_at_its_end(server, first, pod, volume, reads):
    server.commit(AFTER)
    server.dataset.store.fail("get", *[None] * reads, *[Denied("No.", code="test.no") for _ in range(50)])
    code, _ = pod("fill", volume, "--copy", "cc-2", "--base", "cc-1")
    assert (code, (volume / "cc-2/READY").exists()) == (1, False)
    server.dataset.store.before.clear()

    code, noted = pod("fill", volume, "--copy", "cc-2", "--base", "cc-1")

    assert (code, noted["bytes_shared"]) == (0, 18_000)
    assert contents(volume / "cc-2/files") == AFTER


def test_a_copy_leaves_and_others_keep_their_files(server, first, pod, volume):
    fill_second(server, pod, volume)

    assert pod("remove", volume, "--copy", "cc-1") == (0, {"removed": "cc-1"})
    assert pod("remove", volume, "--copy", "cc-1") == (0, {"removed": "cc-1"})

    assert contents(volume / "cc-2/files") == AFTER
    assert sorted(str(path.relative_to(volume)) for path in volume.glob("*/*")) == ["cc-2/READY", "cc-2/files"]


def test_a_removal_that_was_interrupted_goes_on(first, pod, volume):
    (volume / ".trash").mkdir()
    (volume / "cc-1").rename(volume / ".trash/cc-1")

    assert pod("remove", volume, "--copy", "cc-1")[0] == 0

    assert list((volume / ".trash").iterdir()) == []


def test_a_copy_leaves_however_deep_somebody_made_it(first, pod, volume):
    (volume / "cc-1/files").chmod(0o755)
    with deep_folder(volume / "cc-1/files/odd", 1100):
        assert pod("remove", volume, "--copy", "cc-1")[0] == 0

    assert list((volume / ".trash").iterdir()) == []


def test_a_damaged_file_is_named_and_healed_in_every_copy_that_has_it(server, first, pod, volume):
    fill_second(server, pod, volume)
    damage(volume / "cc-1/files/a/two", b"x" * 9000)

    code, noted = pod("verify", volume, "--copy", "cc-2")

    assert code == 0
    assert noted["files"] == [["moved/two", "changed", [["cc-1", "a/two"]]]]
    assert contents(volume / "cc-1/files") == FILES
    assert contents(volume / "cc-2/files") == AFTER
    assert inode_of(volume / "cc-2/files/moved/two") == inode_of(volume / "cc-1/files/a/two")
    assert [oct(path.stat().st_mode)[-3:] for path in volume.glob("cc-*/files/[am]*")] == ["555"] * 3


def test_of_a_hundred_flipped_bits_every_one_is_named_and_healed(server, pod, volume):
    dice = random.Random(7)
    files = {f"part-{number % 7}/{number:03}": dice.randbytes(dice.randint(1, 3000)) for number in range(100)}
    server.commit(files)
    pod("fill", volume, "--copy", "cc-1")
    for path, content in files.items():
        bit = dice.randrange(8 * len(content))
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        damage(volume / "cc-1/files" / path, bytes(flipped))

    code, noted = pod("verify", volume, "--copy", "cc-1")

    assert (code, noted["damaged"]) == (0, 100)
    assert contents(volume / "cc-1/files") == files
