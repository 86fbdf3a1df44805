from pathlib import Path

import pytest

from compute.adapters.local.driver import LocalDriver
from compute.engine.ports import Launch, ReportState
from tests.contracts.compute_driver import ComputeDriverContract, Place, make_launch


class LocalPlace(Place):
    def __init__(self, jobs: Path) -> None:
        self.jobs = jobs
        self.driver = LocalDriver(jobs)

    def start_quick(self, name: str) -> Launch:
        return self._start(make_launch(name, "echo one; echo two"))

    def start_endless(self, name: str) -> Launch:
        return self._start(make_launch(name, "exec sleep 600"))

    def restart(self) -> None:
        self.driver = LocalDriver(self.jobs)

    def close(self) -> None:
        """End what still runs; a shim that was just spawned is waited for first."""
        names = [
            marker.name for marker in (self.jobs / ".live").iterdir() if (self.jobs / marker.name / "control").exists()
        ]
        for name in names:
            self.wait_for(name, *ReportState)
            self.driver.stop(name, 0)
        for name in names:
            self.wait_for_end(name)

    def _start(self, launch: Launch) -> Launch:
        self.driver.start(launch)
        return launch


@pytest.fixture
def place(tmp_path):
    place = LocalPlace(tmp_path / "jobs")
    yield place
    place.close()


class TestLocalDriver(ComputeDriverContract):
    pass
