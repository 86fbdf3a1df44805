"""A whole cluster: a control plane, simulated nodes, and one real node of this machine that runs pods."""

from pathlib import Path

from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kwok import start_kwok
from tests.kubernetes.node import Node
from tests.kubernetes.processes import Cleaner

NODE = "real-node"


class Cluster(ControlPlane):
    """A control plane whose `node` runs real pods; images must be on the node, with `imagePullPolicy: Never`."""

    def __init__(self, folder: Path, cleaner: Cleaner, **settings: int) -> None:
        super().__init__(folder, node=NODE, **settings)
        self.cleaner = cleaner
        self.node = Node(self, NODE, cleaner)

    def start(self) -> None:
        self.node.make_bridge()
        self.address, self.services = self.node.address, self.node.services
        super().start()
        start_kwok(self)
        self.node.start()

    def stop(self) -> None:
        self.node.kill()
        super().stop()
