"""What is said of the GPUs that a job sees."""

import pytest

from compute.engine.gpu_check import GivenGpus, check
from compute.engine.visible_gpus import SeenGpu, VisibleGpus

GIB = 2**30
ONE = VisibleGpus((SeenGpu("GPU-a", 80 * GIB),))
NODE = {index: SeenGpu(f"GPU-{name}", 80 * GIB) for index, name in enumerate("abcd")}


def seen(*uuids, **more):
    return VisibleGpus(tuple(SeenGpu(uuid, 80 * GIB) for uuid in uuids), **more)


@pytest.mark.parametrize(
    ("visible", "given", "text"),
    [
        (ONE, GivenGpus([[0, 1000]]), "Sees 1 of 1 GPU, 80 GiB."),
        (seen("GPU-a", "GPU-b"), GivenGpus([[0, 1000], [1, 1000]]), "Sees 2 of 2 GPUs, 80 GiB each."),
        (VisibleGpus((SeenGpu("GPU-a"),)), GivenGpus([[0, 1000]]), "Sees 1 of 1 GPU."),
        (VisibleGpus((SeenGpu("GPU-a"),)), GivenGpus([[0, 1000]], devices=NODE), "Sees 1 of 1 GPU, 80 GiB."),
        (ONE, GivenGpus([[0, 500]]), "Sees 1 of 1 GPU, 80 GiB (has 0.5: nothing caps it)."),
        (
            ONE,
            GivenGpus([[0, 500]], asked_bytes=40 * GIB),
            "Sees 1 of 1 GPU, 80 GiB (asked for 40 GiB: nothing caps it).",
        ),
        (VisibleGpus((SeenGpu("MIG-a"),)), GivenGpus([[0, 250]], ["0:1g.10gb@0"]), "Sees 1 of 1 slice."),
        (
            seen("GPU-b", openable=4, variable="1"),
            GivenGpus([[1, 1000]]),
            "Sees 1 of 1 GPU, 80 GiB. Only CUDA_VISIBLE_DEVICES keeps it from 3 others of its node.",
        ),
    ],
)
def test_a_job_that_sees_what_it_was_given_is_told_what_that_is(visible, given, text):
    result = check([visible], [given])

    assert (result.text, result.differs) == (text, False)


@pytest.mark.parametrize(
    ("visible", "given", "text"),
    [
        (
            seen("GPU-a", "GPU-b", "GPU-c", "GPU-d"),
            GivenGpus([[0, 1000]]),
            "Sees 4 GPUs, was given 1. Nothing keeps it from using all that it sees.",
        ),
        (seen(), GivenGpus([[0, 500]]), "Sees no GPU, was given 1."),
        (
            seen("GPU-a", variable="0"),
            GivenGpus([[0, 1000], [1, 1000]]),
            "Sees 1 GPU, was given 2. In its environment CUDA_VISIBLE_DEVICES is '0'.",
        ),
        (
            seen("GPU-a"),
            GivenGpus([], ["1g.10gb"]),
            "Sees 1 GPU, was given 1 slice. Nothing keeps it from using all that it sees.",
        ),
        (
            seen("GPU-b"),
            GivenGpus([[0, 1000]], devices=NODE),
            "Sees GPU-b, was given GPU-a. The GPUs of its node have other numbers than before.",
        ),
    ],
)
def test_a_job_that_sees_something_else_is_told_both(visible, given, text):
    result = check([visible], [given])

    assert (result.text, result.differs) == (text, True)


def test_what_is_not_known_of_uuids_is_no_difference():
    cluster = {0: SeenGpu("node-uid-0", 80 * GIB)}

    assert not check([ONE], [GivenGpus([[0, 1000]], devices=cluster)]).differs
    assert not check([VisibleGpus((SeenGpu(""),))], [GivenGpus([[0, 1000]], devices=NODE)]).differs


def test_of_a_gang_the_first_replica_that_differs_is_told():
    given = [GivenGpus([[0, 1000]])] * 4

    alike, differing = check([ONE, ONE, None, ONE], given), check([ONE, seen(), seen(), ONE], given)

    assert (alike.text, alike.differs) == ("Replica 0: Sees 1 of 1 GPU, 80 GiB. Others alike: 2.", False)
    assert (differing.text, differing.differs) == ("Replica 1: Sees no GPU, was given 1. Others that differ: 1.", True)
    assert differing.to_json()["replicas"][1] == {"gpus": [], "openable": None, "variable": None}


def test_of_which_nothing_is_known_nothing_is_said():
    assert check([None, None], [GivenGpus([[0, 1000]])] * 2) is None
