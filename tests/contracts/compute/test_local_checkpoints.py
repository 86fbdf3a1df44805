"""What a job keeps in its checkpoint folder on this machine, its next run finds."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from compute.adapters.local.driver import LocalDriver
from compute.adapters.local.tree_folders import TreeFolders
from compute.adapters.local.views import Views
from compute.engine.mounts import Tree
from compute.engine.ports import CheckpointFolder, EndCause, KeepsCheckpoints, Launch, ReportState
from tests.contracts.compute.test_local import open_places
from tests.contracts.compute_driver import make_launch, read_output

STORED = Tree("ds_1", "r1")
APPEND = "cat $NEARLINE_CHECKPOINT_DIR/steps; echo {} >> $NEARLINE_CHECKPOINT_DIR/steps"


class Source:
    """A tree of one read-only file. `may_go_on` holds its writing up."""

    def __init__(self, content: str) -> None:
        self.content = content
        self.writes = 0
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def write(self, target: Path, should_stop: Callable[[], bool] = lambda: False) -> None:
        self.writes += 1
        assert self.may_go_on.wait(30)
        (target / "deep").mkdir(parents=True)
        (target / "steps").write_text(self.content)
        (target / "steps").chmod(0o444)
        (target / "deep").chmod(0o555)


@pytest.fixture(params=["confined", "unconfined"])
def place(request, tmp_path):
    for place in open_places(tmp_path, request.param):
        source = place.source = Source("stored\n")
        views = Views(hidden=[tmp_path]) if request.param == "confined" else None
        trees = TreeFolders(tmp_path / "trees", lambda _tree, _launch, source=source: source)
        place.driver = LocalDriver(tmp_path / "jobs", views, trees=trees)
        yield place


def launch(name: str, command: str, checkpoint: CheckpointFolder | None) -> Launch:
    return replace(make_launch(name, command), checkpoint=checkpoint)


def run(place, name: str, command: str, *, tree: Tree | None = None) -> str:
    """Run a command to its end and return what it printed."""
    place.driver.start(launch(name, command, CheckpointFolder("ckpt_1", tree)))
    place.wait_for_end(name)
    return place.driver.read_log(name, 0, 1000).data.decode()


def kept(place) -> dict[str, bytes]:
    return read_output(place.driver.open_checkpoint("ckpt_1"))


def test_the_next_run_finds_what_the_last_one_has_saved_however_it_ended(place):
    run(place, "train", "echo 900 > $NEARLINE_CHECKPOINT_DIR/steps; kill -9 $$")

    assert run(place, "train-2", APPEND.format(1000)) == "900\n"
    assert kept(place) == {"steps": b"900\n1000\n"}


def test_a_job_without_checkpoints_has_no_such_folder(place):
    place.driver.start(launch("plain", "echo [$NEARLINE_CHECKPOINT_DIR]", None))
    place.wait_for_end("plain")

    assert place.driver.read_log("plain", 0, 100).data == b"[]\n"
    assert place.driver.list_checkpoints() == []


def test_it_goes_on_from_the_stored_tree_and_may_change_it(place):
    assert run(place, "train", APPEND.format("here") + "; touch $NEARLINE_CHECKPOINT_DIR/deep/new", tree=STORED) == (
        "stored\n"
    )
    assert kept(place) == {"deep/new": b"", "steps": b"stored\nhere\n"}


def test_what_was_made_of_the_stored_tree_here_is_not_replaced_by_it(place):
    run(place, "train", APPEND.format("here"), tree=STORED)

    assert run(place, "train-2", APPEND.format("again"), tree=STORED) == "stored\nhere\n"
    assert place.source.writes == 1


def test_a_newer_tree_of_another_place_replaces_what_is_here(place):
    run(place, "train", APPEND.format("here"))
    place.source.content = "elsewhere\n"

    assert run(place, "train-2", APPEND.format("back"), tree=Tree("ds_1", "r2")) == "elsewhere\n"


def test_a_checkpoint_that_cannot_be_brought_leaves_what_was_there(place):
    run(place, "train", "echo 900 > $NEARLINE_CHECKPOINT_DIR/steps")
    place.source.may_go_on.clear()

    def write(_target: Path, should_stop: Callable[[], bool]) -> None:
        place.source.may_go_on.wait(30)
        raise OSError("The disk is full.")

    place.source.write = write
    place.driver.start(launch("train-2", "true", CheckpointFolder("ckpt_1", STORED)))
    assert [report.state for report in place.driver.list_jobs() if report.name == "train-2"] == [ReportState.STARTING]
    place.source.may_go_on.set()

    report = place.wait_for_end("train-2")
    assert (report.cause, report.reason) == (
        EndCause.NOT_STARTED,
        "The job could not be started: The disk is full.",
    )
    assert kept(place) == {"steps": b"900\n"}


def test_it_is_deleted_by_its_name(place):
    run(place, "train", APPEND.format(1), tree=STORED)
    assert isinstance(place.driver, KeepsCheckpoints)
    assert place.driver.list_checkpoints() == ["ckpt_1"]

    place.driver.delete_checkpoint("ckpt_1")
    place.driver.delete_checkpoint("ckpt_1")

    assert place.driver.list_checkpoints() == []
    assert place.driver.open_checkpoint("ckpt_1") is None
