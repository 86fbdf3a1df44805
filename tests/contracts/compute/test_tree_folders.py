"""Trees as folders of this host: written once, whole, shared, put right after a change, deleted when idle."""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from compute.adapters.local.driver import LocalDriver
from compute.adapters.local.tree_folders import TreeFolders
from compute.engine.job_spec import Mount, Tree
from compute.engine.ports import EndCause, ReportState
from datasets.errors import HydrationStopped, StoreUnreachable
from tests.contracts.compute.test_local import LocalPlace
from tests.contracts.compute_driver import make_launch

TREE = Tree("ds_1", "root1")
DAY_S = 86_400


@dataclass
class Source:
    """A tree whose writing the test watches. It waits for `gate` before its last file."""

    content: dict[str, str] = field(default_factory=lambda: {"train.py": "print('hi')", "lib/model.py": "x = 1"})
    gate: threading.Event = field(default_factory=threading.Event)
    fault: Exception | None = None
    waits_for: str = ""
    written: list[str] = field(default_factory=list)
    has_begun: threading.Event = field(default_factory=threading.Event)

    def write(self, target: Path, should_stop, on_wait) -> None:
        for name, text in self.content.items():
            file = target / name
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                file.write_text(text)
                self.written.append(name)
            if self.waits_for:
                on_wait(self.waits_for)
            self.has_begun.set()
            while not self.gate.wait(0.01):
                if should_stop():
                    raise HydrationStopped("Stopped on request.")
            if self.fault is not None:
                raise self.fault


@pytest.fixture
def source() -> Source:
    source = Source()
    source.gate.set()
    return source


@pytest.fixture
def folders(tmp_path, source) -> TreeFolders:
    return TreeFolders(tmp_path / "trees", lambda _tree, _launch: source)


@pytest.fixture
def place(tmp_path, folders) -> Iterator[LocalPlace]:
    place = LocalPlace(tmp_path / "jobs")
    place.driver = LocalDriver(tmp_path / "jobs", trees=folders)
    yield place
    place.close()


def start(place: LocalPlace, name: str, command: str = "python train.py"):
    launch = make_launch(name, command, code=Mount("code", TREE))
    place.driver.start(launch)
    return launch


def test_a_tree_is_written_once_and_found_from_then_on(folders, source):
    folder = folders.bring(TREE, source)

    assert (folder / "lib/model.py").read_text() == "x = 1"
    assert folders.find(TREE) == folders.bring(TREE, source) == folder
    assert source.written == ["train.py", "lib/model.py"]


def test_many_who_ask_at_once_get_one_folder_that_one_of_them_wrote(folders, source):
    source.gate.clear()
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(folders.bring(TREE, source))) for _ in range(8)]
    for thread in threads:
        thread.start()
    source.has_begun.wait(60)
    source.gate.set()
    for thread in threads:
        thread.join(60)

    assert found == [folders.home / "root1"] * 8
    assert source.written == ["train.py", "lib/model.py"]


def test_whoever_waits_for_another_is_stopped_without_it(folders, source):
    source.gate.clear()
    writer = threading.Thread(target=folders.bring, args=(TREE, source))
    writer.start()
    source.has_begun.wait(60)

    with pytest.raises(HydrationStopped):
        folders.bring(TREE, source, lambda: True)

    source.gate.set()
    writer.join(60)
    assert folders.find(TREE) is not None


def test_a_tree_that_was_cut_off_is_not_there_and_goes_on_with_what_has_come(folders, source):
    source.gate.clear()
    with pytest.raises(HydrationStopped):
        folders.bring(TREE, source, lambda: True)
    assert (folders.find(TREE), (folders.home / "root1").exists()) == (None, False)

    source.gate.set()
    folders.bring(TREE, source)

    assert source.written == ["train.py", "lib/model.py"]


def test_a_changed_folder_is_put_right_where_it_is(folders, source):
    folder = folders.bring(TREE, source)
    inode = folder.stat().st_ino
    (folder / "train.py").write_text("print(666)")
    (folder / "lib/new.py").write_text("y = 2")

    assert folders.find(TREE) is None
    folders.bring(TREE, source)

    assert (folder / "train.py").read_text() == "print('hi')"
    assert not (folder / "lib/new.py").exists()
    assert folder.stat().st_ino == inode


def test_a_folder_that_was_deleted_is_written_again(folders, source):
    for path in sorted(folders.bring(TREE, source).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (folders.home / "root1").rmdir()

    assert folders.find(TREE) is None
    assert (folders.bring(TREE, source) / "train.py").read_text() == "print('hi')"


def test_a_folder_goes_when_it_is_idle(folders, source):
    folders.bring(TREE, source)
    lock = folders.home / "root1.lock"

    assert not folders.delete_idle("root1", idle_s=DAY_S)
    os.utime(lock, (lock.stat().st_mtime - DAY_S,) * 2)
    assert folders.list_roots() == ["root1"]
    assert folders.delete_idle("root1", idle_s=DAY_S)
    assert list(folders.home.iterdir()) == []


def test_a_folder_that_is_being_written_does_not_go(folders, source):
    source.gate.clear()
    writer = threading.Thread(target=folders.bring, args=(TREE, source))
    writer.start()
    source.has_begun.wait(60)

    assert not folders.delete_idle("root1", idle_s=0)

    source.gate.set()
    writer.join(60)
    assert folders.find(TREE) is not None


def test_a_job_runs_with_code_from_the_store_and_cannot_spoil_it_for_the_next(place, folders, source):
    start(place, "first", "echo 'print(666)' > train.py")
    assert place.wait_for_end("first").state is ReportState.SUCCEEDED

    start(place, "second")
    place.wait_for_end("second")

    assert place.read_log("second") == "hi\n"
    assert source.written == ["train.py", "lib/model.py"]


def test_a_job_is_starting_while_its_code_is_brought_and_nobody_waits_for_that(place, source):
    source.gate.clear()
    launch = start(place, "train")
    report = place.wait_for("train", ReportState.STARTING)
    place.driver.start(launch)
    source.gate.set()

    assert (report.token, report.started_at) == (launch.token, None)
    assert place.wait_for_end("train").state is ReportState.SUCCEEDED
    assert place.read_log("train") == "hi\n"


def test_a_job_whose_code_waits_for_the_store_says_so(place, source):
    source.waits_for = "The store does not answer."
    source.gate.clear()
    start(place, "train")
    source.has_begun.wait(60)
    report = place.wait_for("train", ReportState.STARTING)
    source.gate.set()

    assert report.reason == "The store does not answer."
    assert place.wait_for_end("train").state is ReportState.SUCCEEDED


def test_a_job_that_is_stopped_while_its_code_is_brought_never_runs(place, source):
    source.gate.clear()
    start(place, "train")
    source.has_begun.wait(60)

    place.driver.stop("train", 5)
    report = place.wait_for_end("train")

    assert (report.state, report.cause, report.started_at) == (ReportState.FAILED, EndCause.STOPPED, None)
    assert place.driver.read_log("train", 0, 100).is_complete
    assert not (place.jobs / "train" / "started.json").exists()


def test_a_job_whose_code_cannot_be_brought_says_why_and_is_not_started_again(place, source):
    source.fault = StoreUnreachable("The store does not answer.")
    launch = start(place, "train")
    report = place.wait_for_end("train")
    source.fault = None

    place.driver.start(launch)

    assert (report.cause, report.reason) == (
        EndCause.NOT_STARTED,
        "The job could not be started: The store does not answer.",
    )
    assert place.report("train") == report
    assert place.read_log("train") == "[nearline] The job could not be started: The store does not answer.\n"
