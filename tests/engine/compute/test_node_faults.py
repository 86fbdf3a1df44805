"""What a place says of a node is believed within bounds."""

from dataclasses import replace

import pytest

from compute.engine.node_faults import MOST_GPUS, find_fault
from compute.engine.ports import GpuFacts, NodeFacts

NODE = NodeFacts("node-1", 4000, 2**34, (GpuFacts(0, "u-0", "NVIDIA-A100", 2**36),), {"pool": "train"})


def test_a_node_as_there_are_has_no_fault():
    assert find_fault(NODE) == ""


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"name": ""}, "its name is no name"),
        ({"name": "n" * 254}, "its name is no name"),
        ({"name": "a\0b"}, "its name is no name"),
        ({"gpus": NODE.gpus * (MOST_GPUS + 1)}, "it has more than 1,000 GPUs"),
        ({"cpu_millicores": -1}, "no CPU, memory or number of pods is of that size"),
        ({"memory_bytes": 2**63}, "no CPU, memory or number of pods is of that size"),
        ({"gpus": (GpuFacts(0, "u-0", "A100", 10**63),)}, "no CPU, memory or number of pods is of that size"),
        ({"max_pods": -1}, "no CPU, memory or number of pods is of that size"),
        ({"gpus": (GpuFacts(0, "u-0", "x" * 101, 1),)}, "a GPU has a name that is too long"),
        ({"labels": {"pool": "\ud800"}}, "its labels cannot be stored"),
    ],
)
def test_a_node_that_cannot_be_is_named_with_its_fault(change, fault):
    assert find_fault(replace(NODE, **change)) == fault
