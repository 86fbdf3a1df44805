"""The contract of `CopyFolder`: every adapter passes it, in every way of sharing that it can do.

An adapter's test module subclasses `CopyFolderContract` and offers a fixture `volume`.
"""

from pathlib import Path

import pytest

from client.tests.deep_folders import deep_folder
from datasets.engine.cache_ports import CopyFolder, DamageKind, Sharing, Staging
from datasets.errors import CacheSiteUnavailable, StagingLost
from nearline.content.hashing import file_id
from nearline.content.manifest import Entry, new_symlink
from nearline.content.paths import to_text

PATH = "team-a/xrays/c1"
OTHER = "team-a/xrays/c2"


def entry_of(name: bytes, content: bytes, mode: int = 0o644) -> Entry:
    return Entry(name, mode, len(content), 1_700_000_000_000_000_000, file_id(content))


# Large enough to lie in blocks of their own: some file systems keep tiny files in their inodes, which nobody can share.
CONTENT = {b"a/one": b"1" * 9000, b"a/two": b"2" * 9000, b"run": b"#!" * 5000, b"odd \xff\n": b"odd" * 5000}
ENTRIES = sorted(
    [*(entry_of(n, c, 0o755 if n == b"run" else 0o644) for n, c in CONTENT.items()), new_symlink(b"link", b"run", 0)]
)
FILES = len(ENTRIES)


def fill(staging: Staging, entries=ENTRIES) -> None:
    """Write files as hydration does: whole, closed to writers, with the times of the manifest."""
    for entry in entries:
        path = staging.folder / to_text(entry.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry.target:
            path.symlink_to(to_text(entry.target))
        else:
            path.write_bytes(CONTENT[entry.path])
            path.chmod(0o555 if entry.mode & 0o111 else 0o444)


def make(volume: CopyFolder, path: str = PATH, copy_id: str = "cc_1") -> None:
    staging = volume.stage(copy_id, "t1")
    fill(staging)
    staging.publish(path, files=FILES)


def make_shared(volume: CopyFolder, base: str = PATH, path: str = OTHER, copy_id: str = "cc_2") -> list[bool]:
    staging = volume.stage(copy_id, "t1")
    shared = [not entry.target and staging.share(entry, base=base, base_path=entry.path) for entry in ENTRIES]
    fill(staging, [entry for entry, is_shared in zip(ENTRIES, shared, strict=True) if not is_shared])
    staging.publish(path, files=FILES)
    return shared


def look(volume: CopyFolder, path: str = PATH, *, read=False, quiet=None) -> dict[bytes, DamageKind]:
    found = volume.inspect(path, ENTRIES, quiet_since_ns=quiet, must_read=lambda _: read)
    return {damage.path: damage.kind for damage in found}


class CopyFolderContract:
    """What the rest of caching relies on."""

    @pytest.fixture
    def folder(self, volume, tmp_path) -> Path:
        """Where copies of `volume` can be seen."""
        return tmp_path / "site"

    def test_a_copy_is_invisible_until_it_is_published_whole(self, volume, folder):
        staging = volume.stage("cc_1", "t1")
        fill(staging)
        assert not volume.is_published(PATH, "cc_1")
        assert not (folder / PATH).exists()

        staging.publish(PATH, files=FILES)

        assert volume.is_published(PATH, "cc_1")
        assert look(volume, read=True) == {}
        assert sorted(p.name for p in (folder / PATH).iterdir()) == sorted(["a", "run", "link", "odd \udcff\n"])

    def test_everything_in_a_copy_is_read_only(self, volume, folder):
        make(volume)

        modes = {
            p.name: p.lstat().st_mode & 0o777
            for p in [folder / PATH, *(folder / PATH).rglob("*")]
            if not p.is_symlink()
        }
        assert modes == {"c1": 0o555, "a": 0o555, "one": 0o444, "two": 0o444, "run": 0o555, "odd \udcff\n": 0o444}

    def test_publishing_again_is_no_error(self, volume):
        make(volume)

        volume.stage("cc_1", "t2").publish(PATH, files=FILES)

        assert look(volume, read=True) == {}

    def test_another_number_of_files_is_never_published(self, volume, folder):
        staging = volume.stage("cc_1", "t1")
        fill(staging)

        with pytest.raises(CacheSiteUnavailable, match="or its file system cannot keep all names apart"):
            staging.publish(PATH, files=FILES + 1)

        assert not volume.is_published(PATH, "cc_1")
        assert not (folder / PATH).exists()
        assert list(volume.stage("cc_1", "t2").folder.iterdir()) == []

    def test_a_later_token_takes_the_files_and_the_right(self, volume):
        early = volume.stage("cc_1", "t1")
        fill(early)

        late = volume.stage("cc_1", "t2")

        assert (late.folder / "a" / "one").read_bytes() == CONTENT[b"a/one"]
        with pytest.raises(StagingLost):
            early.publish(PATH, files=FILES)
        assert not volume.is_published(PATH, "cc_1")
        late.publish(PATH, files=FILES)
        assert volume.is_published(PATH, "cc_1")

    def test_what_an_older_token_writes_too_late_is_not_published(self, volume):
        early = volume.stage("cc_1", "t1")
        late = volume.stage("cc_1", "t2")
        fill(late)
        early.folder.mkdir()
        (early.folder / "too late").write_text("x")

        volume.stage("cc_1", "t3").publish(PATH, files=FILES)

        assert look(volume, read=True) == {}

    def test_hidden_is_gone_from_view_and_weighed_until_removed(self, volume, folder):
        make(volume)

        volume.hide(PATH, "cc_1")

        assert not volume.is_published(PATH, "cc_1")
        assert not (folder / PATH).exists()
        assert volume.weigh("cc_1") == sum(map(len, CONTENT.values())) + len(b"run")
        assert volume.list_leftovers() == {"cc_1"}
        assert volume.remove("cc_1", keep_going=lambda: True)
        assert volume.list_leftovers() == set()
        assert volume.remove("cc_1", keep_going=lambda: True)

    def test_hiding_leaves_another_copy_at_that_path_alone(self, volume):
        make(volume, copy_id="cc_2")

        volume.hide(PATH, "cc_1")

        assert volume.is_published(PATH, "cc_2")

    def test_a_removal_stops_when_told_and_goes_on_when_asked_again(self, volume):
        make(volume)
        volume.hide(PATH, "cc_1")

        assert not volume.remove("cc_1", keep_going=lambda: False)
        assert volume.list_leftovers() == {"cc_1"}
        assert volume.remove("cc_1", keep_going=lambda: True)

    def test_what_somebody_made_very_deep_is_weighed_and_removed(self, volume):
        staging = volume.stage("cc_1", "t1")
        (staging.folder / "odd").mkdir()
        with deep_folder(staging.folder / "odd", 1100):
            assert volume.weigh("cc_1") == 0
            assert volume.remove("cc_1", keep_going=lambda: True)

        assert volume.list_leftovers() == set()

    def test_what_lies_in_the_way_of_a_copy_is_moved_aside(self, volume, folder):
        (folder / PATH).mkdir(parents=True)
        (folder / PATH / "foreign").write_text("x")

        make(volume)

        assert look(volume, read=True) == {}

    def test_a_complete_copy_is_never_moved_aside_for_another(self, volume):
        make(volume)
        staging = volume.stage("cc_2", "t1")
        fill(staging)

        with pytest.raises(CacheSiteUnavailable):
            staging.publish(PATH, files=FILES)

        assert volume.is_published(PATH, "cc_1")
        assert volume.list_published() == {"cc_1": PATH}

    def test_sharing_costs_nothing_and_ends_without_harm(self, volume):
        make(volume)
        shared = make_shared(volume)
        assert any(shared) == (volume.sharing is not Sharing.NONE)

        volume.hide(PATH, "cc_1")
        own = volume.weigh("cc_1")
        volume.remove("cc_1", keep_going=lambda: True)

        assert own == (len(b"run") if any(shared) else sum(map(len, CONTENT.values())) + len(b"run"))
        assert look(volume, OTHER, read=True) == {}

    def test_a_file_that_was_written_to_is_never_shared(self, volume, folder):
        make(volume)
        damaged = folder / PATH / "a" / "one"
        damaged.chmod(0o644)
        damaged.write_bytes(b"x" * 9000)

        staging = volume.stage("cc_2", "t1")

        assert not staging.share(ENTRIES[0], base=PATH, base_path=b"a/one")
        assert not staging.share(ENTRIES[0], base="team-a/xrays/none", base_path=b"a/one")

    def test_every_kind_of_damage_is_found(self, volume, folder):
        make(volume)
        top = folder / PATH
        (top / "a").chmod(0o755)
        (top / "a" / "one").unlink()
        (top / "a" / "two").chmod(0o644)
        (top / "a" / "two").write_bytes(b"x" * 9000)
        (top / "a" / "new").write_text("x")
        top.chmod(0o755)
        (top / "link").unlink()
        (top / "link").symlink_to("/etc/passwd")

        assert look(volume) == {
            b"a/one": DamageKind.MISSING,
            b"a/two": DamageKind.CHANGED,
            b"a/new": DamageKind.STRAY,
            b"link": DamageKind.CHANGED,
        }
        assert (top / "a").stat().st_mode & 0o777 == 0o555

    def test_healing_puts_new_files_in_place_in_every_copy(self, volume, folder):
        make(volume)
        make_shared(volume)
        (folder / PATH / "a").chmod(0o755)
        (folder / PATH / "a" / "one").unlink()
        good = volume.stage("healing-1", "t1")
        fill(good, [ENTRIES[0], ENTRIES[3]])

        volume.replace(
            [(PATH, b"a/one"), (OTHER, b"a/one"), ("team-a/gone/c9", b"a/one")],
            ENTRIES[0],
            good=good.folder / "a" / "one",
        )
        link = next(entry for entry in ENTRIES if entry.target)
        if not (good.folder / "link").is_symlink():
            fill(good, [link])
        volume.replace([(PATH, b"link")], link, good=good.folder / "link")
        volume.remove("healing-1", keep_going=lambda: True)

        assert look(volume, PATH, read=True) == {}
        assert look(volume, OTHER, read=True) == {}
        assert (folder / PATH / "a").stat().st_mode & 0o777 == 0o555

    def test_what_does_not_belong_is_taken_out(self, volume, folder):
        make(volume)
        (folder / PATH / "a").chmod(0o755)
        (folder / PATH / "a" / "deep").mkdir()
        (folder / PATH / "a" / "deep" / "x").write_text("x")

        volume.discard(PATH, b"a/deep", "cc_1")

        assert look(volume, read=True) == {}

    def test_sharers_are_found_under_any_name(self, volume, folder):
        make(volume)
        make_shared(volume)
        if volume.sharing is not Sharing.HARD_LINK:
            return
        damaged = folder / PATH / "a" / "one"
        key = damaged.stat().st_ino

        found = volume.find_sharers([PATH, OTHER], {key})

        assert found == {key: [(PATH, b"a/one"), (OTHER, b"a/one")]}

    def test_the_volume_knows_its_size_and_its_time(self, volume):
        usage = volume.usage()

        assert 0 <= usage.free_bytes <= usage.total_bytes
        assert 0 < volume.now_ns() <= volume.now_ns()
