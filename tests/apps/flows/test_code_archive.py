"""What a stranger's archive may do: fill one folder within bounds, or be refused; nothing beside the folder changes."""

import contextlib
import gzip
import io
import struct
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.adapters.code_archive import Limits, unpack
from flows.errors import InvalidBundle

SMALL = Limits(unpacked_bytes=10_000, files=5, folders=5, depth=4, path_bytes=60, name_bytes=20)


def member(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def link(name: str, target: str, *, is_hard: bool = False) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.LNKTYPE if is_hard else tarfile.SYMTYPE, linkname=target)


def folder(name: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.DIRTYPE)


def pack(*members: tuple[tarfile.TarInfo, bytes], tar_format: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tar_format) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def blocks(*pieces: bytes) -> bytes:
    return gzip.compress(b"".join(piece + bytes(-len(piece) % 512) for piece in pieces) + bytes(1024))


def header(name: str, size: bytes = b"00000000000", kind: bytes = b"0") -> bytes:
    block = bytearray(tarfile.TarInfo(name).tobuf(tarfile.USTAR_FORMAT))
    block[124 : 124 + len(size)], block[156:157], block[148:156] = size, kind, b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder to unpack in, with files of somebody else around it."""
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "home").mkdir()
    target = tmp_path / "home" / "target"
    target.mkdir()
    return target


def tree(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
        if not path.is_symlink()
    }


@pytest.mark.parametrize("tar_format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_files_and_folders_are_unpacked_whoever_packed_them(place, tar_format):
    deep = "/".join(["a-rather-long-name"] * 6)
    data = pack(
        folder("./"),
        folder("lib/"),
        member("./train.py", b"print(1)", mode=0o755),
        member("lib/model.py", b"x" * 1000, mode=0o600),
        member(f"{deep}/é.py", b"2"),
        tar_format=tar_format,
    )

    files = unpack(data, place)

    assert files == 3
    assert (place / "train.py").read_bytes() == b"print(1)"
    assert (place / "lib/model.py").read_bytes() == b"x" * 1000
    assert (place / deep / "é.py").read_bytes() == b"2"
    assert [(place / name).stat().st_mode & 0o777 for name in ("train.py", "lib/model.py")] == [0o755, 0o644]


@pytest.mark.parametrize(
    "members",
    [
        pytest.param([link("a", "/etc/passwd")], id="to a place outside"),
        pytest.param([link("a", "b")], id="to a place inside"),
        pytest.param([link("up", ".."), member("up/victim", b"x")], id="through a folder above"),
        pytest.param([link("a", "../../victim"), member("a", b"x")], id="written through"),
        pytest.param([link("a", "../../victim", is_hard=True), member("a", b"x")], id="a hard link"),
        # A name that is resolved to more than the longest path is what lets links past tarfile's filter.
        pytest.param(
            [
                *(link("/".join(["d" * 50] * n + ["l"]), "/".join(["d" * 50] * n)) for n in range(1, 5)),
                link("out", "l/l/l/l/" + "../" * 20 + "tmp"),
                member("out/victim", b"x"),
            ],
            id="longer than a path",
        ),
    ],
)
def test_an_archive_with_a_link_is_refused_and_changes_nothing_outside(place, members):
    before = tree(place.parent.parent)

    with pytest.raises(InvalidBundle, match="holds a link: "):
        unpack(pack(*members), place)

    assert tree(place.parent.parent) == before


def test_a_link_that_is_there_already_is_not_followed(place):
    outside = place.parent / "outside"
    outside.mkdir()
    (place / "lib").symlink_to(outside)
    (place / "train.py").symlink_to(place.parent.parent / "victim")

    for name in ("lib/model.py", "train.py"):
        with pytest.raises(InvalidBundle):
            unpack(pack(member(name, b"x")), place)

    assert list(outside.iterdir()) == []
    assert (place.parent.parent / "victim").read_text() == "precious"


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([member("../victim", b"x")], "leads out of its folder"),
        ([member("a/../../victim", b"x")], "leads out of its folder"),
        ([member("/tmp/victim", b"x")], "an absolute path"),
        ([member("a", pax_headers={"path": "/tmp/victim"})], "an absolute path"),
        ([member("a", pax_headers={"path": "b\0c"})], "leads out of its folder"),
        ([member(".", b"x")], "a file without a name"),
        ([member("a", b"x"), member("a", b"y")], "a name twice"),
        ([member("a", b"x"), member("a/b", b"y")], "a name twice"),
        ([folder("a"), member("a", b"y")], "a name twice"),
        ([member("p", type=tarfile.FIFOTYPE)], "neither a file nor a folder"),
        ([member("d", type=tarfile.CHRTYPE)], "neither a file nor a folder"),
        ([member("n" * 21)], "a name of more than 20"),
        ([member("/".join(["n" * 19] * 4))], "a path of more than 60 bytes"),
        ([member("a/b/c/d/e")], "more than 4 levels of folders"),
        ([member(str(number)) for number in range(6)], "more than 5 files"),
        ([folder(str(number)) for number in range(6)], "more than 5 folders"),
        ([member("a/b/c", b""), member("d/e/f", b""), member("g/h/i", b"")], "more than 5 folders"),
        ([folder("a")] * 31, "more than 5 files"),
        ([member("a", bytes(10_001))], "unpacks to more than 0 MiB"),
    ],
)
def test_what_is_too_much_or_leads_out_is_refused(place, members, words):
    with pytest.raises(InvalidBundle, match=words):
        unpack(pack(*members), place, SMALL)

    assert (place.parent.parent / "victim").read_text() == "precious"
    assert [path.name for path in place.parent.iterdir()] == ["target"]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"no archive", id="no gzip"),
        pytest.param(gzip.compress(b"no archive" * 100), id="no tar"),
        pytest.param(pack(member("train.py", b"x"))[:-12], id="cut off"),
        pytest.param(blocks(header("a", b"00000010000")), id="shorter than it says"),
        pytest.param(blocks(header("a", b"\xff" * 11)), id="a negative size"),
        pytest.param(blocks(header("a", b"\x80" + b"\x7f" * 10)), id="an enormous size"),
        pytest.param(blocks(header("a", b"17777777777", b"x")), id="an enormous extended header"),
        pytest.param(blocks(header("a", b"00000000012", b"x"), b"9" * 10), id="a record longer than its header"),
        pytest.param(blocks(header("a", b"00000000003", b"x"), b"0 a"), id="a record of no length"),
        pytest.param(blocks(header("a", b"00000000020", b"x"), b"16 size=99999999\n"), id="an enormous size, extended"),
    ],
)
def test_what_is_no_whole_archive_is_refused(place, data):
    with pytest.raises(InvalidBundle):
        unpack(data, place)

    assert [path.name for path in place.parent.iterdir()] == ["target"]


def test_zeros_that_pack_to_next_to_nothing_end_early(place):
    packed = gzip.compress(header("zeros", b"%011o" % 10**8) + bytes(10**8))

    with pytest.raises(InvalidBundle, match="unpacks to more than 100 times its size"):
        unpack(packed, place)

    assert sum(path.stat().st_size for path in place.iterdir()) < 16 * 2**20


def test_zeros_after_the_end_of_the_archive_count_too(place):
    with pytest.raises(InvalidBundle, match="unpacks to more than 100 times its size"):
        unpack(gzip.compress(bytes(3 * 10**7)), place)


def test_a_full_disk_is_not_the_archives_fault(place):
    data = pack(member("train.py", b"x"))
    place.rmdir()

    with pytest.raises(FileNotFoundError):
        unpack(data, place)


NAMES = st.one_of(
    st.sampled_from(["a", "b", "a/b", "..", "../victim", "a/../..", "/tmp/x", ".", "", "a//b/", "l/x", "\udcff", "é"]),
    st.text(st.sampled_from("ab./\0é"), max_size=30),
)
MEMBERS = st.builds(
    lambda name, target, kind, content, mode: member(name, content, type=kind, linkname=target, mode=mode),
    NAMES,
    st.one_of(NAMES, st.sampled_from(["../victim", "../../victim", "/"])),
    st.sampled_from([tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, b"7"]),
    st.binary(max_size=20),
    st.integers(0, 0o7777),
)


def assert_stays_inside(tmp_path_factory, data: bytes) -> None:
    root = tmp_path_factory.mktemp("fuzz")
    (root / "victim").write_text("precious")
    target = root / "target"
    target.mkdir()

    with contextlib.suppress(InvalidBundle):
        unpack(data, target, SMALL)

    assert {path.name for path in root.iterdir()} == {"target", "victim"}
    assert (root / "victim").read_text() == "precious"
    assert not any(path.is_symlink() for path in target.rglob("*"))
    assert all(path.stat().st_nlink == 1 for path in target.rglob("*") if path.is_file())


@settings(max_examples=300)
@given(st.lists(MEMBERS, max_size=6), st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]))
def test_any_members_stay_inside_or_are_refused(tmp_path_factory, members, tar_format):
    assert_stays_inside(tmp_path_factory, pack(*members, tar_format=tar_format))


@settings(max_examples=300)
@given(st.lists(MEMBERS, min_size=1, max_size=3), st.data())
def test_any_damage_to_an_archive_is_refused_or_harmless(tmp_path_factory, members, data):
    raw = bytearray(gzip.decompress(pack(*members)))
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    for start in range(0, len(raw) - 511, 512):
        if raw[start + 257 : start + 262] == b"ustar":  # else most damage ends at the checksum
            raw[start + 148 : start + 156] = b" " * 8
            total = sum(struct.unpack_from("512B", raw, start))
            raw[start + 148 : start + 156] = b"%06o\0 " % total

    assert_stays_inside(tmp_path_factory, gzip.compress(bytes(raw)))


@settings(max_examples=100)
@given(st.binary(max_size=2000))
def test_any_bytes_are_refused_or_harmless(tmp_path_factory, data):
    assert_stays_inside(tmp_path_factory, data)
    assert_stays_inside(tmp_path_factory, gzip.compress(data))
