"""What the pod of a job does with its checkpoint folder before the command starts."""

import json
import signal
from pathlib import Path

import pytest

from client.tests.deep_folders import deep_folder
from nearline.pod import __main__ as pod
from tests.kubernetes.stand_in_platform import StandInPlatform


@pytest.fixture
def platform(tmp_path, monkeypatch):
    monkeypatch.setattr(pod, "_MESSAGE", tmp_path / "message")
    with StandInPlatform("127.0.0.1", tmp_path / "outputs").running() as platform:
        monkeypatch.setenv("NEARLINE_URL", platform.url)
        monkeypatch.setenv("NEARLINE_ATTEMPT_TOKEN", "token")
        yield platform


@pytest.fixture
def volume(tmp_path) -> Path:
    folder = tmp_path / "volume"
    folder.mkdir()
    return folder


def resume(volume: Path, root: str = "", *, is_first: bool = True) -> int:
    return pod.main(["resume", json.dumps({"folder": str(volume), "root": root, "is_first": is_first})])


def store(platform, folder: Path, root: str, **files: str) -> None:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    platform.trees[f"checkpoint/{root}"] = folder


def kept(volume: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in (volume / "files").iterdir()}


def test_a_new_folder_is_empty(platform, volume):
    assert resume(volume) == 0

    assert kept(volume) == {}


def test_a_stored_tree_is_brought_once_and_what_was_made_of_it_stays(platform, volume, tmp_path):
    store(platform, tmp_path / "tree", "r1", steps="900")
    resume(volume, "r1")
    (volume / "files" / "steps").write_text("1000")

    resume(volume, "r1")

    assert kept(volume) == {"steps": "1000"}


def test_another_stored_tree_replaces_folders_of_any_number_of_levels(platform, volume, tmp_path):
    store(platform, tmp_path / "tree", "r1", steps="900")

    with deep_folder(volume / "files", 2500), deep_folder(volume / "arriving", 2500):
        assert resume(volume, "r1") == 0

        assert kept(volume) == {"steps": "900"}


def test_another_stored_tree_replaces_all_that_is_there(platform, volume, tmp_path):
    resume(volume)
    (volume / "files" / "old").touch()
    (volume / "arriving").mkdir()
    (volume / "arriving" / "half").touch()
    store(platform, tmp_path / "tree", "r2", steps="2000")

    resume(volume, "r2")

    assert kept(volume) == {"steps": "2000"}


def test_a_tree_that_is_refused_leaves_what_was_there_and_is_told(platform, volume, tmp_path):
    resume(volume)
    (volume / "files" / "steps").write_text("900")

    assert resume(volume, "r3") == 1

    assert kept(volume) == {"steps": "900"}
    assert (tmp_path / "message").read_text() == "The platform refuses (404): There is no such tree."


def test_another_replica_brings_nothing_itself(platform, volume, tmp_path):
    store(platform, tmp_path / "tree", "r1", steps="900")
    resume(volume, "r1")
    platform.trees.clear()
    before = signal.getsignal(signal.SIGTERM)

    try:
        assert resume(volume, "r1", is_first=False) == 0
    finally:
        signal.signal(signal.SIGTERM, before)

    assert kept(volume) == {"steps": "900"}
