"""Several pods fill one copy: who writes which files, and who says that it is complete."""

import json
import os
import random
import stat

import pytest

from client.tests.pod.conftest import contents, counts
from nearline.content.entries import BlobRef, Entry, new_symlink
from nearline.content.hashing import file_id
from nearline.pod.shares import divide

PACK_BYTES = 1000


def random_tree(seed: int) -> list[Entry]:
    """A tree as syncs leave it: packs one after the other, files that span some, empty files, links, old packs."""
    draw = random.Random(seed)
    entries, position = [], 0
    for number in range(draw.randrange(400)):
        path, kind = f"f{number:04}".encode(), draw.random()
        if kind < 0.05:
            entries.append(new_symlink(path, b"f0000", 0))
            continue
        size = 0 if kind < 0.1 else draw.randrange(1, 3500 if kind > 0.95 else 300)
        blobs, left = [], size
        while left:
            part = min(left, PACK_BYTES - position % PACK_BYTES)
            pack = draw.randrange(3) if kind < 0.15 else position // PACK_BYTES
            blobs.append(BlobRef(file_id(path), file_id(b"%d" % pack), position % PACK_BYTES, part))
            position, left = position + part, left - part
        entries.append(Entry(path, 0o644, size, 0, file_id(path), blobs=tuple(blobs)))
    return entries


@pytest.mark.parametrize("seed", range(20))
def test_every_file_has_one_share_and_no_share_is_larger_than_the_mean_by_more_than_one_pack(seed):
    entries = random_tree(seed)
    begun: dict[bytes, int] = {}
    for entry in entries:
        for blob in entry.blobs[:1]:
            begun[blob.pack] = begun.get(blob.pack, 0) + entry.size

    for count in (1, 2, 3, 7, 64):
        division = divide(iter(entries), count)
        sizes = [0] * count
        for entry in entries:
            sizes[division.share_of(entry)] += entry.size

        mean, most = sum(sizes) / count, max(begun.values(), default=0)
        assert sum(sizes) == sum(entry.size for entry in entries)
        assert all(abs(size - mean) <= most for size in sizes)
        shares = [division.share_by_pack[pack] for pack in begun]
        assert shares == sorted(shares)  # ranges of packs
        assert division == divide(iter(entries), count)


FILES = {
    f"{name}/{number}": random.Random(f"{name}{number}").randbytes(30_000) for name in "abc" for number in range(4)
}
ALL = {**FILES, "empty": b""}
SIZE = sum(map(len, ALL.values()))


@pytest.fixture
def share(pod, monkeypatch):
    """Run the pod of one share."""

    def run(volume, number, count=3):
        monkeypatch.setenv("JOB_COMPLETION_INDEX", str(number))
        return pod("share", volume, "--shares", count)

    return run


def test_pods_fill_their_shares_and_one_more_says_that_the_copy_is_complete(server, pod, share, volume):
    server.commit(ALL)

    noted = []
    for number in (2, 0, 1):
        assert not (volume / "READY").exists()
        code, said = share(volume, number)
        assert code == 0
        noted.append(said)
        report = server.reports[-1]
        assert (report["share"], report["shares"], report["rate_bytes_s"]) == (number, 3, 0)
        assert (report["files_done"], report["bytes_done"]) == (said["files_done"], said["bytes_done"])
    assert not (volume / "READY").exists()
    assert all(0 < said["bytes_done"] < SIZE for said in noted)
    reads = len(server.reports)

    code, done = pod("fill", volume, "--shares", 3)

    assert (code, done["files_done"]) == (0, len(ALL))
    assert counts(done) == (SIZE, 0, 0, sum(said["bytes_moved"] for said in noted))
    assert "share" not in server.reports[reads]
    assert contents(volume / "files") == ALL
    assert sorted(path.name for path in volume.iterdir()) == ["READY", "files"]
    assert json.loads((volume / "READY").read_text())["root"] == done["root"]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (volume / "files").rglob("*")}
    assert modes == {0o444, 0o555}


def test_a_share_that_is_filled_is_told_again_and_a_killed_one_goes_on(server, pod, share, volume):
    server.commit(ALL)
    _, first = share(volume, 0)
    mark = volume / "FILLED-0"
    text = mark.read_text()

    assert share(volume, 0) == (0, first)
    mark.unlink()
    files = sorted((volume / "files").rglob("*"))
    next(path for path in files if path.is_file() and path.stat().st_size).unlink()
    (volume / "files/.nearline/parts/left").write_bytes(b"of a killed pod")
    _, again = share(volume, 0)

    assert again["bytes_done"] == first["bytes_done"]
    assert again["bytes_moved"] == 30_000
    assert json.loads(mark.read_text())["root"] == json.loads(text)["root"]
    for number in (1, 2):
        share(volume, number)
    assert pod("fill", volume, "--shares", 3)[0] == 0
    assert contents(volume / "files") == ALL


def test_what_is_not_as_its_pod_left_it_is_fetched_before_the_copy_is_complete(server, pod, share, volume):
    server.commit(ALL)
    for number in range(3):
        share(volume, number)
    (volume / "files/a/0").unlink()
    os.utime(volume / "files/c/3", ns=(1, 1))
    (volume / "files/stray").write_bytes(b"x")

    code, done = pod("fill", volume, "--shares", 3)

    assert (code, done["bytes_done"]) == (0, SIZE)
    assert contents(volume / "files") == ALL


def test_a_share_that_no_pod_has_marked_is_not_trusted(server, pod, share, volume):
    server.commit(ALL)
    for number in range(3):
        share(volume, number)
        (volume / f"FILLED-{number}").unlink()
    path = volume / "files/b/1"
    status = path.stat()
    path.chmod(0o644)
    path.write_bytes(b"x" * 30_000)
    path.chmod(0o444)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    code, done = pod("fill", volume, "--shares", 3)

    assert (code, done["files_done"], done["bytes_moved"]) == (0, len(ALL), 30_000)
    assert contents(volume / "files") == ALL


def test_marks_of_another_number_of_shares_count_for_nothing(server, pod, share, volume):
    server.commit(ALL)
    share(volume, 0, 2)

    code, _ = share(volume, 0, 3)

    assert code == 0
    assert json.loads((volume / "FILLED-0").read_text())["shares"] == 3
    for number in (1, 2):
        share(volume, number)
    assert pod("fill", volume, "--shares", 3)[0] == 0
    assert contents(volume / "files") == ALL


def test_a_volume_that_one_pod_has_begun_is_completed_by_several(server, pod, share, volume):
    server.commit(ALL)
    pod("fill", volume)
    (volume / "READY").rename(volume / "FILLING")
    (volume / "FILLING").write_text(
        json.dumps({"root": json.loads((volume / "FILLING").read_text())["root"], "base": None})
    )

    for number in range(3):
        assert share(volume, number)[0] == 0
    code, done = pod("fill", volume, "--shares", 3)

    assert (code, done["bytes_moved"]) == (0, 0)
    assert contents(volume / "files") == ALL
