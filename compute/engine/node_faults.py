"""Whether what a place says of a node can be true: what it says is written down and read by every scheduling cycle."""

from collections.abc import Iterator

from compute.engine.ports import NodeFacts
from core import bounds

MOST_GPUS = 1000
"""The most GPUs of one node: slices and shares of a large machine fit many times."""
_LONGEST_NAME = 253
_LONGEST_DEVICE = 100


def find_fault(node: NodeFacts) -> str:
    """Return why a node cannot be taken as it is told; empty when it can."""
    return next(_faults(node), "")


def _faults(node: NodeFacts) -> Iterator[str]:
    if not 0 < len(node.name) <= _LONGEST_NAME or bounds.text_fault(node.name):
        yield "its name is no name"
    if len(node.gpus) > MOST_GPUS:
        yield f"it has more than {MOST_GPUS:,} GPUs"
    amounts = (node.cpu_millicores, node.memory_bytes, node.max_pods or 0, *(gpu.memory_bytes for gpu in node.gpus))
    if not all(0 <= amount <= bounds.MAX_QUANTITY for amount in amounts):
        yield "no CPU, memory or number of pods is of that size"
    names = [text for gpu in node.gpus for text in (gpu.uuid, gpu.model)]
    if any(len(name) > _LONGEST_DEVICE or bounds.text_fault(name) for name in names):
        yield "a GPU has a name that is too long"
    if bounds.value_fault(dict(node.labels)) is not None:
        yield "its labels cannot be stored"
