"""What a job keeps in its checkpoint folder on this machine, its next run finds."""

import threading
from pathlib import Path

import pytest

from compute.adapters.local.driver import LocalDriver
from compute.adapters.local.tree_folders import TreeFolders
from compute.adapters.local.views import Views
from compute.engine.ports import CheckpointFolder, EndCause, ReportState
from tests.contracts.compute.test_local import open_places
from tests.contracts.compute_driver import STORED, ReadableCheckpointContract


class Source:
    """A tree of one read-only file. `may_go_on` holds its writing up."""

    def __init__(self, content: str) -> None:
        self.content = content
        self.writes = 0
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def write(self, target: Path, should_stop, on_wait) -> None:
        self.writes += 1
        assert self.may_go_on.wait(120)
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
        place.store_checkpoint = lambda content, source=source: setattr(source, "content", content)
        yield place


class TestLocalCheckpoints(ReadableCheckpointContract):
    def test_folders_of_the_stored_tree_may_be_written_to(self, place):
        place.run("train", "touch $NEARLINE_CHECKPOINT_DIR/deep/new", tree=STORED)

        assert place.read_checkpoint() == {"deep/new": b"", "steps": b"stored\n"}

    def test_a_stored_tree_is_brought_once(self, place):
        place.run("train", "true", tree=STORED)
        place.run("train-2", "true", tree=STORED)

        assert place.source.writes == 1


def test_what_links_in_a_checkpoint_folder_lead_to_stays_as_it_is_when_the_folder_is_deleted(place, tmp_path):
    others = tmp_path / "others"
    others.write_text("sealed")
    others.chmod(0o444)
    place.run("train", f"cd $NEARLINE_CHECKPOINT_DIR && ln -s {others} others && ln -s nowhere broken")

    place.driver.forget("train")
    place.driver.delete_checkpoint("ckpt_1")

    assert place.driver.list_checkpoints() == []
    assert (others.read_text(), others.stat().st_mode & 0o777) == ("sealed", 0o444)


def test_a_checkpoint_that_cannot_be_brought_leaves_what_was_there(place):
    place.run("train", "echo 900 > $NEARLINE_CHECKPOINT_DIR/steps")
    place.source.may_go_on.clear()

    def write(_target: Path, _should_stop, _on_wait) -> None:
        place.source.may_go_on.wait(120)
        raise OSError("The disk is full.")

    place.source.write = write
    place.start_with_checkpoint("train-2", "true", CheckpointFolder("ckpt_1", STORED))
    assert [report.state for report in place.driver.list_jobs() if report.name == "train-2"] == [ReportState.STARTING]
    place.source.may_go_on.set()

    report = place.wait_for_end("train-2")
    assert (report.cause, report.reason) == (
        EndCause.NOT_STARTED,
        "The job could not be started: The disk is full.",
    )
    assert place.read_checkpoint() == {"steps": b"900\n"}
