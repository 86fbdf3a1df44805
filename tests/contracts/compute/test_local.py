from pathlib import Path

import pytest

from compute.adapters.local.driver import LocalDriver
from compute.engine.ports import Launch
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

    def _start(self, launch: Launch) -> Launch:
        self.driver.start(launch)
        return launch


@pytest.fixture
def place(tmp_path):
    place = LocalPlace(tmp_path / "jobs")
    yield place
    names = [report.name for report in place.driver.list_jobs()]
    for name in names:
        place.driver.stop(name, 0)
    for name in names:
        place.wait_for_end(name)


class TestLocalDriver(ComputeDriverContract):
    pass
