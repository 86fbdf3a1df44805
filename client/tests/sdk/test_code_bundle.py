"""The code that goes with a flow."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from client.tests.deep_folders import deep_folder
from nearline import InvalidRequest
from nearline.resources import code_bundle
from nearline.resources.code_bundle import find_code, pack_code


@pytest.fixture
def folder(tmp_path):
    for name in (
        "flow.yaml",
        "train.py",
        "lib/model.py",
        "lib/__pycache__/model.pyc",
        ".env",
        "venv/pyvenv.cfg",
        "venv/x.py",
    ):
        path = tmp_path / "code" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "code"


def names_in(data: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        return archive.getnames()


def test_code_is_what_lies_beside_the_flow_without_it_and_without_what_is_no_code(folder):
    assert find_code(folder, without=folder / "flow.yaml").names == ["lib/model.py", "train.py"]


def test_the_same_files_are_the_same_bytes_whoever_packs_them_and_when(folder):
    first = pack_code(find_code(folder))
    (folder / "train.py").touch()
    (folder / "train.py").chmod(0o600)

    assert pack_code(find_code(folder)) == first


def test_in_a_repository_git_says_what_is_code(folder):
    subprocess.run(["git", "-C", str(folder), "init", "-q"], check=True)
    (folder / ".gitignore").write_text("venv\n__pycache__\n.env\n*.weights\n")
    (folder / "big.weights").write_text("x")

    assert find_code(folder).names == [".gitignore", "flow.yaml", "lib/model.py", "train.py"]


def test_an_ignore_file_keeps_files_out(folder):
    (folder / ".nearlineignore").write_text("lib/\n")

    assert find_code(folder, without=folder / "flow.yaml").names == ["train.py"]


def test_a_dataset_beside_the_flow_is_no_code(folder):
    (folder / "digits" / ".nearline").mkdir(parents=True)
    (folder / "digits" / "0.png").write_text("png")

    assert "digits/0.png" not in find_code(folder).names


def test_a_flow_inside_a_dataset_brings_no_code(folder):
    (folder / ".nearline").mkdir()

    assert find_code(folder) is None


@pytest.mark.parametrize("is_repository", [False, True])
def test_links_stay_behind_and_are_told(folder, is_repository):
    (folder / "secrets").symlink_to("/etc/passwd")
    (folder / "same.py").symlink_to("train.py")
    (folder / "library").symlink_to("lib")
    (folder / "broken").symlink_to("nowhere")
    if is_repository:
        subprocess.run(["git", "-C", str(folder), "init", "-q"], check=True)

    code = find_code(folder)

    assert {"lib/model.py", "train.py"} <= set(code.names)
    assert not {"secrets", "same.py", "library", "library/model.py", "broken"} & set(code.names)
    (links,) = code.left_out.values()
    assert links == ["broken", "library", "same.py", "secrets"]


def test_files_with_two_names_are_packed_as_files(folder):
    (folder / "same.py").hardlink_to(folder / "train.py")

    with tarfile.open(fileobj=io.BytesIO(pack_code(find_code(folder))), mode="r:gz") as archive:
        assert all(member.isreg() for member in archive)
        assert archive.extractfile("same.py").read() == archive.extractfile("train.py").read() == b"train.py"


def test_a_file_alone_brings_no_code(tmp_path):
    (tmp_path / "flow.yaml").write_text("flow: x")

    assert find_code(tmp_path, without=tmp_path / "flow.yaml") is None


@pytest.mark.parametrize(("limit", "value"), [("MAX_FILES", 1), ("MAX_UNPACKED_BYTES", 10), ("MAX_BYTES", 10)])
def test_too_much_is_refused_with_the_way_out(folder, monkeypatch, limit, value):
    monkeypatch.setattr(code_bundle, limit, value)

    with pytest.raises(InvalidRequest) as raised:
        pack_code(find_code(folder))

    assert "--no-code" in raised.value.hint


def test_names_that_are_no_text_are_packed(folder):
    (folder / os.fsdecode(b"\xff.py")).write_text("x")

    assert len(names_in(pack_code(find_code(folder)))) == 4


@pytest.mark.parametrize("has_git", [True, False])
def test_what_nearlineignore_lists_is_left_out_and_told(folder, has_git):
    if has_git:
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        (folder / ".gitignore").write_text("__pycache__\nvenv\n.env\n")
    (folder / ".nearlineignore").write_text("lib\n*.log\n")
    (folder / "train.log").write_text("long")

    code = find_code(folder, without=folder / "flow.yaml")

    expected = ["lib/model.py", "train.log"] if has_git else ["lib/", "train.log"]
    assert "train.py" in code.names
    assert not {"lib/model.py", "train.log"} & set(code.names)
    assert code.left_out == {"listed in .nearlineignore": expected}


@pytest.mark.parametrize("uses_git", [False, True])
def test_paths_that_a_tree_cannot_carry_are_left_out_with_the_reason(folder, uses_git):
    if uses_git:
        subprocess.run(["git", "-C", str(folder), "init", "-q"], check=True)
    with deep_folder(folder / "lib", 1100):
        code = find_code(folder)

    reason = "as the name has more than 256 components"
    assert sum(name.endswith("/f") for name in code.names) == 255  # below `lib`, itself one component
    assert list(code.left_out) == [reason]
    assert not set(code.left_out[reason]) & set(code.names)


def test_a_folder_whose_path_the_system_cannot_name_is_left_out(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with deep_folder(folder / "long", 30, "n" * 200):
        code = find_code(Path())

    assert code.left_out == {"as the name is longer than 4096 bytes": ["long" + 21 * ("/" + 200 * "n")]}
