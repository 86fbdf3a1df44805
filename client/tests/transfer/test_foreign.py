"""Files of DVC, Hugging Face and git-LFS, found where those tools keep them; what is missing or damaged is refused."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from client.tests.deep_folders import deep_folder
from nearline.content.entries import EntryKind, new_symlink
from nearline.errors import Failed, InvalidRequest
from nearline.transfer.foreign import dvc, hugging_face, lfs
from nearline.transfer.foreign.adoption import Digest, check_digests


def contents(adoption) -> dict[bytes, bytes]:
    check_digests(adoption, threads=2)
    return {path: place.read_bytes() for path, place in adoption.files.items()}


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def keep(cache: Path, data: bytes, *, name: str = "", prefix: str = "files/md5") -> str:
    name = name or md5(data)
    place = cache / prefix / name[:2] / name[2:]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    return name


@pytest.fixture
def repository(tmp_path) -> Path:
    """A folder that is tracked as a whole, the output of a stage, one of DVC 2, and a metric beside the code."""
    cache = tmp_path / ".dvc" / "cache"
    listed = [{"md5": keep(cache, data), "relpath": name} for name, data in [("a.png", b"one"), ("b/ü.png", b"two")]]
    listing = json.dumps(listed).encode()
    folder = keep(cache, listing, name=md5(listing) + ".dir")
    (tmp_path / "images.dvc").write_text(
        f"outs:\n- md5: {folder}\n  size: 6\n  nfiles: 2\n  hash: md5\n  path: images\n"
    )
    old = keep(cache, b"a\r\nb\r\n", name=md5(b"a\nb\n"), prefix="")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "notes.txt.dvc").write_text(f"outs:\n- md5: {old}\n  path: notes.txt\n")
    (tmp_path / "score.json").write_bytes(b"{}")
    lock = {
        "outs": [
            {"path": "model.bin", "hash": "md5", "md5": keep(cache, b"model"), "size": 5},
            {"path": "score.json", "hash": "md5", "md5": md5(b"{}")},
        ]
    }
    (tmp_path / "dvc.lock").write_text(json.dumps({"schema": "2.0", "stages": {"train": lock}}))
    return tmp_path


def add_stage(root: Path, definition: dict, outs: dict[str, str], *, name: str = "train") -> None:
    """Add a dvc.yaml with a stage, and the dvc.lock of its outputs with their hashes."""
    (root / "dvc.yaml").write_text(json.dumps({"stages": {name.partition("@")[0]: definition}}))
    described = [{"path": path, "hash": "md5", "md5": each} for path, each in outs.items()]
    (root / "dvc.lock").write_text(json.dumps({"schema": "2.0", "stages": {name: {"outs": described}}}))


def test_all_that_dvc_tracks_is_found_by_its_hash(repository):
    assert contents(dvc.read_repository(repository)) == {
        b"images/a.png": b"one",
        "images/b/ü.png".encode(): b"two",
        b"model.bin": b"model",
        b"score.json": b"{}",
        b"sub/notes.txt": b"a\r\nb\r\n",
    }


def test_what_no_cache_has_is_taken_from_the_working_tree_if_it_is_the_same(tmp_path):
    """DVC keeps metrics and plots with `cache: false` in none, which its lock does not say."""
    (tmp_path / ".dvc").mkdir()
    (tmp_path / "plots" / "b").mkdir(parents=True)
    for name, data in {"plots/b/y.csv": b"y", "plots/x.csv": b"x", "score.json": b"{}"}.items():
        (tmp_path / name).write_bytes(data)
    listed = [{"md5": md5(b"y"), "relpath": "b/y.csv"}, {"md5": md5(b"x"), "relpath": "x.csv"}]
    folder = md5(json.dumps(listed).encode()) + ".dir"
    add_stage(tmp_path, {}, {"plots": folder, "score.json": md5(b"{}")})

    assert contents(dvc.read_repository(tmp_path)) == {
        b"plots/b/y.csv": b"y",
        b"plots/x.csv": b"x",
        b"score.json": b"{}",
    }
    (tmp_path / "score.json").write_bytes(b"[]")
    with pytest.raises(Failed, match=r"not as hashed by that tool: score\.json"):
        check_digests(dvc.read_repository(tmp_path), threads=1)
    (tmp_path / "plots" / "more.csv").write_bytes(b"z")
    with pytest.raises(Failed, match=r"content of 1 file is not here: plots\."):
        dvc.read_repository(tmp_path)


@pytest.mark.parametrize(
    ("name", "definition"),
    [
        ("train", {"wdir": "runs"}),
        ("train@lr0", {"foreach": ["lr0"], "do": {"wdir": "runs"}}),
        ("train@0", {"matrix": {}, "wdir": "runs"}),
    ],
)
def test_outputs_of_a_stage_are_in_its_folder_which_only_the_pipeline_says(tmp_path, name, definition):
    add_stage(tmp_path, definition, {"model.bin": keep(tmp_path / ".dvc" / "cache", b"model")}, name=name)

    assert contents(dvc.read_repository(tmp_path)) == {b"runs/model.bin": b"model"}


def test_a_folder_of_a_stage_that_only_dvc_can_compute_is_refused(tmp_path):
    add_stage(tmp_path, {"wdir": "${place}"}, {"model.bin": keep(tmp_path / ".dvc" / "cache", b"model")})

    with pytest.raises(InvalidRequest, match=r"'\$\{place\}' is the wdir of the stage 'train', which only"):
        dvc.read_repository(tmp_path)


def test_a_folder_that_no_cache_lists_is_not_followed_out_of_the_repository(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_bytes(b"x")
    root = tmp_path / "repository"
    (root / ".dvc").mkdir(parents=True)
    (root / "plots").symlink_to(tmp_path / "outside")
    listing = json.dumps([{"md5": md5(b"x"), "relpath": "x"}]).encode()
    add_stage(root, {}, {"plots": md5(listing) + ".dir"})

    with pytest.raises(Failed, match="plots"):
        dvc.read_repository(root)


@pytest.mark.parametrize(
    "line", ["'2024'", "'null'", '"a\\tb"', "a#b # a comment", ">-\r\n    long\r\n    name", "'é: 日本'"]
)
def test_a_path_is_the_text_that_yaml_says(tmp_path, line):
    name = {"'2024'": "2024", "'null'": "null", '"a\\tb"': "a\tb", "a#b # a comment": "a#b", "'é: 日本'": "é: 日本"}
    (tmp_path / ".dvc").mkdir()
    kept = keep(tmp_path / ".dvc" / "cache", b"x")
    (tmp_path / "a.dvc").write_bytes(f"# of us\r\nouts:\r\n- md5: {kept}\r\n  path: {line}\r\n".encode())

    assert list(dvc.read_repository(tmp_path).files) == [name.get(line, "long name").encode()]


@pytest.mark.parametrize("path", ["true", "~", "[a]"])
def test_an_output_whose_path_is_no_text_is_refused_and_not_left_out(repository, path):
    (repository / "year.dvc").write_text(f"outs: [{{md5: d41d8cd98f00b204e9800998ecf8427e, path: {path}}}]")

    with pytest.raises(InvalidRequest, match="has no path that is text"):
        dvc.read_repository(repository)


@pytest.mark.parametrize("digits", ["12345678901234567890123456789012", "0" * 31 + "8", "1e" + "1" * 30])
def test_hashes_and_paths_of_digits_alone_are_what_stands_there(tmp_path, digits):
    cache = tmp_path / ".dvc" / "cache" / "files" / "md5" / digits[:2]
    cache.mkdir(parents=True)
    (cache / digits[2:]).write_bytes(b"x")
    (tmp_path / "a.dvc").write_text(f"outs:\n- md5: {digits}\n  hash: md5\n  path: 007\n")

    repository = dvc.read_repository(tmp_path)

    assert repository.files == {b"007": cache / digits[2:]}
    assert repository.digests == {cache / digits[2:]: Digest("md5", digits)}


def test_a_missing_or_damaged_file_of_dvc_is_named(repository):
    place = repository / ".dvc/cache/files/md5" / md5(b"two")[:2] / md5(b"two")[2:]
    place.write_bytes(b"twa")
    with pytest.raises(Failed, match=r"images/b/ü\.png"):
        check_digests(dvc.read_repository(repository), threads=1)

    place.unlink()
    with pytest.raises(Failed, match=r"1 file is not here: images/b/ü.png"):
        dvc.read_repository(repository)


def test_a_remote_that_is_a_folder_stands_in_for_the_cache(repository):
    (repository / ".dvc/cache").rename(repository / "remote")
    (repository / ".dvc/config").write_text("['remote \"near\"']\n    url = ../remote\n")

    assert len(dvc.read_repository(repository).files) == 5


@pytest.mark.parametrize(
    "text",
    [
        "outs: [{md5: ../../../../etc/passwd, path: a}]",
        "outs: [{md5: d41d8cd98f00b204e9800998ecf8427e, path: ../../a}]",
        "outs: [{path: a}]",
        "outs: {a: [",
        "[" * 100_000,
    ],
)
def test_a_hostile_repository_is_refused_in_words(tmp_path, text):
    (tmp_path / ".dvc").mkdir()
    (tmp_path / "a.dvc").write_text(text)

    with pytest.raises(InvalidRequest):
        dvc.read_repository(tmp_path)


@pytest.mark.parametrize(
    "listing", [b"{}{", b"[1]", b'[{"md5": "x", "relpath": "a"}]', b'[{"md5": "", "relpath": "\\ud800"}]']
)
def test_a_hostile_list_of_files_is_refused(tmp_path, listing):
    name = keep(tmp_path / ".dvc" / "cache", listing, name=md5(listing) + ".dir")
    (tmp_path / "a.dvc").write_text(f"outs: [{{md5: {name}, path: a}}]")

    with pytest.raises(InvalidRequest):
        dvc.read_repository(tmp_path)


def test_what_was_written_for_dvc_is_read_again(tmp_path):
    (tmp_path / "digits" / "b").mkdir(parents=True)
    (tmp_path / "digits" / "a.png").write_bytes(b"one")
    (tmp_path / "digits" / "b" / "empty").write_bytes(b"")

    assert dvc.write_repository(tmp_path, "digits") == 2

    assert contents(dvc.read_repository(tmp_path)) == {b"digits/a.png": b"one", b"digits/b/empty": b""}
    assert os.stat(tmp_path / "digits" / "a.png").st_mode & 0o222 == 0


def pointer(data: bytes) -> bytes:
    oid = hashlib.sha256(data).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {len(data)}\n".encode()


def test_pointers_of_git_lfs_become_their_objects(tmp_path):
    oid = hashlib.sha256(b"large").hexdigest()
    stored = tmp_path / ".git/lfs/objects" / oid[:2] / oid[2:4]
    stored.mkdir(parents=True)
    (stored / oid).write_bytes(b"large")
    (tmp_path / "a.bin").write_bytes(pointer(b"large"))
    (tmp_path / "odd\n\udcff.bin").write_bytes(pointer(b"large"))
    (tmp_path / "README").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")

    assert contents(lfs.read_repository(tmp_path)) == {
        b"a.bin": b"large",
        b"odd\n\xff.bin": b"large",
        b"README": b"version https://git-lfs.github.com/spec/v1\n",
    }
    (stored / oid).write_bytes(b"wrong")
    with pytest.raises(Failed, match=r"a\.bin"):
        check_digests(lfs.read_repository(tmp_path), threads=1)
    (stored / oid).unlink()
    with pytest.raises(Failed, match=r"2 files is not here"):
        lfs.read_repository(tmp_path)


@pytest.mark.parametrize("read", [lfs.read_repository, hugging_face.read_folder])
def test_what_synced_folders_keep_to_themselves_is_left_out_and_named(tmp_path, read):
    for name in ("a", "sub/x.deleted", ".tmp/y", ".git/HEAD", ".git/z.conflict"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"1")

    adoption = read(tmp_path)

    assert set(adoption.files) == {b"a"}
    assert [path for path, _ in adoption.skipped] == [b".tmp", b"sub/x.deleted"]


def test_a_git_repository_without_a_working_tree_is_refused(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")

    with pytest.raises(InvalidRequest, match="holds no file"):
        lfs.read_repository(tmp_path)


def test_the_hubs_cache_of_several_repositories_is_refused_with_their_names(tmp_path):
    for name in ("models--org--bert", "datasets--team--digits"):
        (tmp_path / name / "snapshots").mkdir(parents=True)

    with pytest.raises(InvalidRequest, match=r"cache of datasets--team--digits, models--org--bert\."):
        hugging_face.read_folder(tmp_path)


def test_a_snapshot_in_the_hubs_cache_is_read_through_its_links(tmp_path):
    cache = tmp_path / "datasets--team--digits"
    data, card = b"PAR1", b"---\nlicense: mit\n---\n\n# Digits\n\nTen of them.\n"
    of_git = hashlib.sha1(b"blob %d\0" % len(card) + card).hexdigest()
    names = {"data/train.parquet": hashlib.sha256(data).hexdigest(), "README.md": of_git}
    (cache / "blobs").mkdir(parents=True)
    (cache / "refs").mkdir()
    (cache / "refs/main").write_text("c0ffee")
    for (name, blob), content in zip(names.items(), (data, card), strict=True):
        (cache / "blobs" / blob).write_bytes(content)
        place = cache / "snapshots/c0ffee" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.path.relpath(cache / "blobs" / blob, place.parent))
    (tmp_path / "secret").write_bytes(b"secret")
    (cache / "snapshots/c0ffee/out").symlink_to(tmp_path / "secret")

    found = hugging_face.read_folder(cache)

    assert found.description == "# Digits\n\nTen of them."
    assert {path: place.name for path, place in found.files.items()} == {
        b"README.md": of_git,
        b"data/train.parquet": names["data/train.parquet"],
        b"out": "out",
    }
    check_digests(found, threads=1)
    (cache / "blobs" / of_git).write_bytes(b"damaged")
    with pytest.raises(Failed, match=r"not as hashed by that tool: README\.md"):
        check_digests(found, threads=1)
    (cache / "blobs" / names["data/train.parquet"]).unlink()
    with pytest.raises(Failed, match=r"data/train\.parquet"):
        hugging_face.read_folder(cache)


def git(folder: Path, *arguments: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    alone = {
        **clean,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CEILING_DIRECTORIES": str(folder),
    }
    done = subprocess.run(["git", *arguments], cwd=folder, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_written_git_repository_has_a_commit_of_pointers_and_the_objects_that_they_name(tmp_path):
    files = {"a.bin": b"\0" * 1000, "sub-c.txt": b"c", "sub/b.txt": b"b", "sub/again": b"c", "empty": b""}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "run.sh").write_text("true")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "link").symlink_to("a.bin")
    for name in (*files, "run.sh"):
        # git reads anew, here without its filter, what changed in the moment of the index.
        os.utime(tmp_path / name, (1_600_000_000, 1_600_000_000))

    lfs.write_repository(tmp_path, author="Ann <a@b>", seconds=1_700_000_000, message="third\n")

    assert git(tmp_path, "fsck", "--strict") == ""
    assert git(tmp_path, "log", "--format=%an|%at|%B") == "Ann a@b|1700000000|third"
    assert git(tmp_path, "diff", "--cached", "--name-only") == ""
    assert git(tmp_path, "diff-files", "--name-only") == ""
    assert git(tmp_path, "ls-tree", "-r", "--format=%(objectmode) %(path)", "HEAD").splitlines() == [
        "100644 .gitattributes",
        "100644 a.bin",
        "100644 empty",
        "120000 link",
        "100755 run.sh",
        "100644 sub-c.txt",
        "100644 sub/again",
        "100644 sub/b.txt",
    ]
    oid = hashlib.sha256(files["a.bin"]).hexdigest()
    assert git(tmp_path, "show", "HEAD:a.bin").splitlines()[1:] == [f"oid sha256:{oid}", "size 1000"]
    assert git(tmp_path, "show", "HEAD:link") == "a.bin"
    assert (tmp_path / ".git/lfs/objects" / oid[:2] / oid[2:4] / oid).read_bytes() == files["a.bin"]
    assert lfs.read_repository(tmp_path).files.keys() == {
        *map(str.encode, files),
        b"run.sh",
        b"link",
        b".gitattributes",
    }


def test_a_push_of_a_written_repository_hands_its_objects_to_git_lfs(tmp_path, monkeypatch):
    programs, root, remote = (tmp_path / name for name in ("programs", "repository", "remote"))
    programs.mkdir()
    (programs / "git-lfs").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/called\n')
    (programs / "git-lfs").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    root.mkdir()
    (root / "a.bin").write_bytes(b"weights")
    lfs.write_repository(root, author="ann", seconds=0, message="first")

    git(tmp_path, "init", "--quiet", "--bare", str(remote))
    git(root, "push", "--quiet", str(remote), "main")

    assert (tmp_path / "called").read_text() == f"pre-push {remote} {remote}\n"


def test_pointers_that_were_written_are_read_as_the_objects_that_they_name(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"weights")
    lfs.write_repository(tmp_path, author="ann", seconds=0, message="first")
    (tmp_path / "a.bin").write_text(git(tmp_path, "show", "HEAD:a.bin") + "\n")

    assert lfs.read_repository(tmp_path).files[b"a.bin"].read_bytes() == b"weights"


def test_attributes_of_a_repository_that_was_imported_stay_when_it_is_exported_again(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"weights")
    (tmp_path / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n*.sh eol=lf")
    lfs.check_entries([new_symlink(b"a.bin", b"there", 0)._replace(path=b".gitattributes", kind=EntryKind.FILE)])

    lfs.write_repository(tmp_path, author="ann", seconds=0, message="first")

    first = (tmp_path / ".gitattributes").read_text()
    assert first.startswith("*.bin filter=lfs diff=lfs merge=lfs -text\n*.sh eol=lf\n* filter=lfs")
    assert git(tmp_path, "check-attr", "filter", "a.bin", ".gitattributes").splitlines() == [
        "a.bin: filter: lfs",
        ".gitattributes: filter: unspecified",
    ]
    shutil.rmtree(tmp_path / ".git")
    lfs.write_repository(tmp_path, author="ann", seconds=0, message="again")
    assert (tmp_path / ".gitattributes").read_text() == first


@pytest.mark.parametrize("path", [b".git/config", b"a/.GIT/x", b".gitattributes", b"sub/.git"])
def test_names_that_git_keeps_for_itself_are_not_exported(path):
    with pytest.raises(InvalidRequest, match="files of its own with such names"):
        lfs.check_entries([new_symlink(b"fine", b"there", 0), new_symlink(path, b"there", 0)])


def test_what_dvc_tracks_is_found_beside_a_folder_of_a_thousand_levels(repository):
    before = contents(dvc.read_repository(repository))
    with deep_folder(repository / "deep", 1100):
        assert contents(dvc.read_repository(repository)) == before
