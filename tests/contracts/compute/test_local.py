from collections.abc import Iterator
from pathlib import Path

import pytest

from compute.adapters.local.driver import LocalDriver
from compute.adapters.local.shim_spawner import find_refusal
from compute.adapters.local.views import Views
from compute.engine.ports import ReportState
from tests.contracts.compute_driver import ComputeDriverContract, Place, PortContract, TerminalContract, make_launch
from tests.ports import reserve_port


class LocalPlace(Place):
    """This machine. With `views` its jobs are confined."""

    def __init__(self, jobs: Path, views: Views | None = None) -> None:
        self.jobs, self.views = jobs, views
        self.driver = LocalDriver(jobs, views)

    def start_server(self, name: str) -> int:
        port = reserve_port()
        self._start(make_launch(name, f"echo 42 > answer; exec python -m http.server {port}"))
        return port

    def restart(self) -> None:
        self.driver.close()
        self.driver = LocalDriver(self.jobs, self.views)

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
        self.driver.close()


def open_places(tmp_path: Path, kind: str) -> Iterator[LocalPlace]:
    """Yield this machine with or without walls around its jobs, and end what runs there."""
    if kind == "confined" and (refusal := find_refusal()):
        pytest.skip(f"this kernel makes no sandbox: {refusal}")
    place = LocalPlace(tmp_path / "jobs", Views(hidden=[tmp_path]) if kind == "confined" else None)
    yield place
    place.close()


@pytest.fixture(params=["confined", "unconfined"])
def place(request, tmp_path):
    yield from open_places(tmp_path, request.param)


class TestLocalDriver(PortContract, TerminalContract, ComputeDriverContract):
    pass
