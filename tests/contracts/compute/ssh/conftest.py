"""A host that is reached by SSH on loopback, and a platform that its jobs reach."""

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from compute.adapters.ssh.connection import HostConnection
from compute.adapters.ssh.driver import SshDriver
from compute.engine.ports import Launch
from compute.errors import ResourceUnreachable
from tests.contracts.compute.ssh.sshd import Sshd
from tests.contracts.compute_driver import DEADLINE_S, Place
from tests.kubernetes.stand_in_platform import StandInPlatform


class SshPlace(Place):
    """This machine, by way of an sshd."""

    def __init__(self, sshd: Sshd, platform: StandInPlatform) -> None:
        self.sshd, self.platform = sshd, platform
        self.jobs = sshd.folder / "nearline" / "jobs"
        self.host = sshd.describe()
        self._open()

    def start(self, name: str, command="true", **spec) -> Launch:
        return self._start(self.make(name, command, **spec))

    def store_checkpoint(self, content: str) -> None:
        folder = self.sshd.folder / "stored"
        folder.mkdir()
        (folder / "steps").write_text(content)
        self.platform.trees["checkpoint/r1"] = folder

    def restart(self) -> None:
        self.connection.close()
        self._open()

    def list_files(self, name: str) -> list[Path]:
        return [path for path in (self.jobs / name).rglob("*") if path.is_file()]

    def wait_until(self, holds) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def kill_shim(self, name: str) -> None:
        os.kill(json.loads((self.jobs / name / "started.json").read_text())["shim"], signal.SIGKILL)

    def use_folder(self, folder: Path) -> None:
        """Keep jobs in another folder from now on."""
        self.jobs = folder / "jobs"
        self.host = replace(self.host, folder=str(folder))
        self.restart()

    def close(self) -> None:
        """End what still runs, and sshd."""
        try:
            running = {report.name for report in self.driver.list_jobs() if report.state in {"starting", "running"}}
            for name in running:
                self.driver.stop(name, 0)
            for name in running:
                self.wait_for_end(name)
            self.connection.close()
        finally:
            self.sshd.kill()

    def use_attended(self) -> None:
        """Speak with the host as the platform does, from now on."""
        self._open(is_attended=True)

    def answers(self) -> bool:
        try:
            self.driver.list_jobs()
        except ResourceUnreachable:
            return False
        return True

    def _open(self, **options) -> None:
        self.connection = HostConnection(self.host, **options)
        self.driver = SshDriver(
            self.connection,
            resource_id="res_1",
            platform_url=self.platform.url,
            outputs=self.platform,
            sign_attempt=lambda launch: f"token of {launch.name}",
        )


@pytest.fixture
def sshd(tmp_path):
    sshd = Sshd(tmp_path / "host")
    yield sshd
    sshd.kill()


@pytest.fixture
def place(tmp_path):
    with StandInPlatform("127.0.0.1", tmp_path / "outputs").running() as platform:
        place = SshPlace(Sshd(tmp_path / "host"), platform)
        yield place
        place.close()
