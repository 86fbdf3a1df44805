from pathlib import Path

import pytest

from compute.adapters.simulated.driver import SimulatedDriver
from compute.engine.ports import GpuFacts, Launch, NodeFacts
from compute.models import Resource
from tests.contracts.compute_driver import ComputeDriverContract, Place, make_launch

NODES = [NodeFacts("sim-1", 8000, 2**34, tuple(GpuFacts(index, f"s{index}", "V100", 2**35) for index in range(8)))]


class SimulatedPlace(Place):
    left = {}

    def __init__(self, empty: Path) -> None:
        self.empty = empty
        self.resource = Resource.objects.create(name="lab", kind="simulated", is_simulated=True)
        self.restart()

    def start_quick(self, name: str) -> Launch:
        return self._start(make_launch(name, simulated_duration_s=0))

    def start_endless(self, name: str) -> Launch:
        return self._start(make_launch(name, simulated_duration_s=3600))

    def restart(self) -> None:
        self.driver = SimulatedDriver(self.resource, NODES, empty=self.empty)


@pytest.fixture
def place(db, tmp_path):
    return SimulatedPlace(tmp_path / "empty")


class TestSimulatedDriver(ComputeDriverContract):
    pass
