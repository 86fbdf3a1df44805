from pathlib import Path

import pytest

from compute.adapters.scripted import ScriptedDriver
from compute.engine.ports import Launch, NodeFacts
from tests.contracts.compute_driver import ComputeDriverContract, Place, make_launch

NODES = [NodeFacts("node-1", 8000, 2**34)]


class ScriptedPlace(Place):
    def __init__(self, root: Path) -> None:
        self.root = root
        self.driver = ScriptedDriver(root, NODES)

    def start_quick(self, name: str) -> Launch:
        launch = self.start_endless(name)
        self.driver.print(name, "one\ntwo\n")
        for path, content in self.left.items():
            self.driver.leave(name, path, content)
        self.driver.finish(name)
        return launch

    def start_endless(self, name: str) -> Launch:
        launch = make_launch(name)
        self.driver.start(launch)
        return launch

    def restart(self) -> None:
        self.driver = ScriptedDriver(self.root, NODES, self.driver.jobs)


@pytest.fixture
def place(tmp_path):
    return ScriptedPlace(tmp_path)


class TestScriptedDriver(ComputeDriverContract):
    pass
