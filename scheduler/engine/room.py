"""The room on one node at one point of a cycle."""

from dataclasses import dataclass, field

from scheduler.engine.resources import ONE_GPU, Amount
from scheduler.engine.snapshot import NodeView


@dataclass(slots=True)
class NodeRoom:
    """What is free on a node. Less than nothing is possible, where a node has shrunk under its workloads.

    `gpu_free` maps each device's index to its free thousandths.
    """

    node: NodeView
    cpu_free: int = field(init=False)
    memory_free: int = field(init=False)
    gpu_free: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.cpu_free = self.node.cpu_millicores
        self.memory_free = self.node.memory_bytes
        self.gpu_free = dict.fromkeys(self.node.devices, ONE_GPU)

    def take(self, amount: Amount, gpus: tuple[tuple[int, int], ...]) -> None:
        """Count room as used. A device that the node no longer reports is passed over."""
        self.cpu_free -= amount.cpu_millicores
        self.memory_free -= amount.memory_bytes
        for index, milli in gpus:
            if index in self.gpu_free:
                self.gpu_free[index] -= milli
