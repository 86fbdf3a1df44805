"""Checkpoint folders on a cluster: the rules of `CheckpointContract`, in as few pods as show them."""

import pytest

from compute.engine.ports import CheckpointFolder
from compute.errors import ResourceUnreachable
from tests.contracts.compute_driver import APPEND, STORED
from tests.kubernetes.place import open_place


@pytest.fixture
def place(cluster, agents, trident, tmp_path):
    with open_place(cluster, tmp_path) as place:
        place.keep_checkpoints(trident)
        yield place


def test_what_a_pod_saved_outlives_it_until_a_newer_tree_replaces_it(place):
    endless = "trap '' TERM; echo 900 > $NEARLINE_CHECKPOINT_DIR/steps; echo saved; while :; do sleep 0.1; done"
    place.start_with_checkpoint("given-up", endless, CheckpointFolder("ckpt_1"))
    place.wait_for_log("given-up", "saved\n")
    place.driver.delete_checkpoint("ckpt_1")

    with pytest.raises(ResourceUnreachable, match="given-up is being ended"):
        place.start_with_checkpoint("train", "true", CheckpointFolder("ckpt_1"))
    place.wait_for_end("given-up")

    assert place.run("train", APPEND.format(1000)) == "900\n"
    assert place.read_checkpoint() == {"steps": b"900\n1000\n"}
    place.store_checkpoint("elsewhere\n")
    assert place.run("train-2", APPEND.format("back"), tree=STORED) == "elsewhere\n"
    assert place.read_checkpoint() == {"steps": b"elsewhere\nback\n"}

    place.driver.delete_checkpoint("ckpt_1")
    assert place.driver.list_checkpoints() == []


def test_a_start_makes_the_claim_which_is_not_deleted_while_a_pod_may_still_write_to_it(place):
    place.start_with_checkpoint("train", "exec sleep 600", CheckpointFolder("ckpt_2"))

    place.driver.delete_checkpoint("ckpt_2")

    assert place.driver.list_checkpoints() == ["ckpt_1", "ckpt_2"]
