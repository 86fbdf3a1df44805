"""A folder that receives a tree: never through a link, never outside, and what is there is treated as asked."""

import os

import pytest

from client.tests.hydrate.packed import MTIME_NS, Packs
from nearline.content.errors import BadPath
from nearline.content.packs import MAX_BLOB_BYTES
from nearline.content.retry import Failure, RetryPolicy
from nearline.hydrate.engine import hydrate
from nearline.hydrate.folder import Existing, FolderTarget

ONCE = RetryPolicy(lambda _: Failure.PERMANENT)
OTHER_NS = 1_600_000_000_000_000_000


@pytest.fixture
def packs():
    return Packs()


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


def fill(packs, root, entries, **options):
    return hydrate(packs, FolderTarget(root, **options), entries, policy=ONCE)


def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(packs, root, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (entry,) = packs.add({"sub/file": b"1"})
    target = FolderTarget(root)
    target.prepare([entry])
    (root / "sub").rename(root / "moved")
    (root / "sub").symlink_to(outside)

    target.write_file(entry, b"1")

    assert list(outside.iterdir()) == []


def test_a_link_where_a_folder_should_be_is_not_followed(packs, root, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    root.mkdir()
    (root / "sub").symlink_to(outside)

    with pytest.raises(OSError, match="root/sub"):
        fill(packs, root, packs.add({"sub/deep/file": b"1"}))

    assert list(outside.iterdir()) == []


def test_a_path_that_leads_out_is_refused(packs, root, tmp_path):
    (entry,) = packs.add({"file": b"1"})

    with pytest.raises(BadPath):
        fill(packs, root, [entry._replace(path=b"../file")])

    assert not (tmp_path / "file").exists()


def test_a_link_that_leads_out_is_refused(packs, root):
    (entry,) = packs.add({"link": "file"})

    with pytest.raises(BadPath):
        fill(packs, root, [entry._replace(target=b"../../etc/passwd")])

    assert not os.path.lexists(root / "link")


def test_after_the_folder_was_renamed_nothing_more_is_written_to_it(packs, root, tmp_path):
    first, second = packs.add({"first": b"1", "second": b"2"})
    target = FolderTarget(root)
    target.prepare([first, second])
    target.write_file(first, b"1")
    root.rename(tmp_path / "taken over")

    with pytest.raises(FileNotFoundError):
        target.write_file(second, b"2")
    root.mkdir()
    with pytest.raises(FileNotFoundError):
        target.write_file(second, b"2")

    assert [path.name for path in (tmp_path / "taken over").iterdir()] == ["first"]
    assert list(root.iterdir()) == []


def test_what_is_there_is_refused_by_name(packs, root):
    root.mkdir()
    (root / "file").write_bytes(b"mine")

    with pytest.raises(FileExistsError, match="root/file"):
        fill(packs, root, packs.add({"file": b"theirs"}))

    assert (root / "file").read_bytes() == b"mine"


def test_what_is_right_is_kept_without_reading_and_gets_its_mode_and_time(packs, root):
    entries = packs.add({"file": b"right", "link": "file"}, mode=0o755)
    root.mkdir()
    (root / "file").write_bytes(b"right")
    (root / "link").symlink_to("file")
    os.utime(root / "file", ns=(OTHER_NS, OTHER_NS))

    done = fill(packs, root, entries, existing=Existing.KEEP)

    assert (done.files, packs.reads) == (2, [])
    assert (root / "file").stat().st_mode & 0o777 == 0o755
    assert (root / "file").stat().st_mtime_ns == MTIME_NS


def test_a_file_that_other_copies_share_keeps_its_time(packs, root, tmp_path):
    (tmp_path / "other").write_bytes(b"right")
    os.utime(tmp_path / "other", ns=(OTHER_NS, OTHER_NS))
    root.mkdir()
    os.link(tmp_path / "other", root / "file")

    fill(packs, root, packs.add({"file": b"right"}), existing=Existing.REPLACE)

    assert (tmp_path / "other").stat().st_mtime_ns == OTHER_NS


@pytest.mark.parametrize("name", ["file", "link"])
def test_what_is_wrong_is_an_error_where_it_is_to_be_kept(packs, root, name):
    entries = packs.add({"file": b"right", "link": "file"})
    root.mkdir()
    (root / name).write_bytes(b"wrong")

    with pytest.raises(FileExistsError, match=f"root/{name}"):
        fill(packs, root, entries, existing=Existing.KEEP)

    assert (root / name).read_bytes() == b"wrong"


def test_what_is_wrong_is_replaced_where_it_may_be(packs, root):
    entries = packs.add({"file": b"right", "link": "file"})
    root.mkdir()
    (root / "file").symlink_to("elsewhere")
    (root / "link").write_bytes(b"wrong")

    fill(packs, root, entries, existing=Existing.REPLACE)

    assert (root / "file").read_bytes() == b"right"
    assert (root / "link").readlink().name == "file"


def test_a_read_only_folder_is_opened_for_completion_and_closed_again(packs, root):
    first, second = packs.add({"sub/first": b"1", "sub/second": b"2"})
    fill(packs, root, [first], read_only=True)

    fill(packs, root, [first, second], read_only=True, existing=Existing.REPLACE)

    assert {path.name for path in (root / "sub").iterdir()} == {"first", "second"}
    assert [path.stat().st_mode & 0o777 for path in (root, root / "sub", root / "sub/second")] == [0o555, 0o555, 0o444]


def test_more_folders_than_are_kept_open_are_filled(packs, root):
    files = {f"{number}/deep/file": b"%d" % number for number in range(300)}

    fill(packs, root, packs.add(files))

    assert {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("file")} == files


def test_what_is_exchanged_stays_until_the_right_file_takes_its_place(root):
    files = {"large": bytes(MAX_BLOB_BYTES + 1), "small": b"1", "to": "small"}
    seen = []

    def look(data):
        seen.append(((root / "large").stat().st_size, (root / "small").stat().st_size, str((root / "to").readlink())))
        return data

    packs = Packs(look)
    root.mkdir()
    for name in ("large", "small"):
        (root / name).write_bytes(b"wrong")
    (root / "to").symlink_to("large")

    fill(packs, root, packs.add(files), existing=Existing.EXCHANGE)

    assert seen[0] == (5, 5, "large")
    assert {name: (root / name).read_bytes() for name in ("large", "small", "to")} == {
        "large": files["large"], "small": b"1", "to": b"1"
    }  # fmt: skip
    assert sorted(path.name for path in root.iterdir()) == ["large", "small", "to"]
