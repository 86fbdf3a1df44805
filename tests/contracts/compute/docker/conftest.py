"""A Docker daemon as a place where jobs run."""

import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from compute.adapters.docker.containers import ContainerSettings
from compute.adapters.docker.driver import DockerDriver
from compute.adapters.docker.engine import Address, Engine
from compute.engine.job_spec import HostFolder, Mount, Tree
from compute.engine.ports import GpuShare, Launch
from nearline.content import archives
from tests.contracts.compute.docker.daemon import USER_IMAGE, Daemon
from tests.contracts.compute_driver import Place, make_launch, write_smi


class EngineWithoutGpus(Engine):
    """Makes containers as it is asked, but for devices that the daemon does not have."""

    def post(self, path, body=None, **options):
        if body and "DeviceRequests" in body.get("HostConfig", {}):
            kept = {key: value for key, value in body["HostConfig"].items() if key != "DeviceRequests"}
            body = {**body, "HostConfig": kept}
        return super().post(path, body, **options)


class DockerPlace(Place):
    """A resource at a daemon. `trees` are folders by the roots under which jobs mount them."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self.daemon, self.folder = daemon, folder
        self.settings = ContainerSettings(resource=secrets.token_hex(8), network="none")
        self.trees: dict[str, Path] = {}
        self.restart()

    def make(self, name: str, command: str, **spec) -> Launch:
        return make_launch(name, command, **({"image": USER_IMAGE} | spec))

    def start(self, name: str, command="true", **spec) -> Launch:
        return self._start(self.make(name, command, **spec))

    def restart(self) -> None:
        """Begin again with nothing of what the last one kept on this host."""
        self.engine = EngineWithoutGpus(Address(self.daemon.url))
        self.driver = DockerDriver(
            self.engine,
            self.settings,
            folder=self.folder / secrets.token_hex(4),
            open_source=self._open_source,
            list_gpus=list,
            is_here=True,
        )

    def start_with_gpu(self, name: str) -> None:
        code = self.folder / "code"
        code.mkdir()
        write_smi(code)
        mount, path = Mount("code", HostFolder(str(code))), {"PATH": "/work:/bin"}
        launch = self.make(name, "exec sleep 600", code=mount, env=path)
        self._start(replace(launch, gpus=(GpuShare(0, 1000),)))

    def _open_source(self, source: Tree | HostFolder):
        return archives.pack(Path(source.path) if isinstance(source, HostFolder) else self.trees[source.root])

    def containers(self) -> list[dict]:
        return self.engine.get("/containers/json", all="true", filters=self.driver._filters())

    def close(self) -> None:
        for container in self.containers():
            self.engine.delete(f"/containers/{container['Id']}", force="true")
        self.engine.close()


@pytest.fixture(scope="session")
def daemon():
    daemon = Daemon()
    yield daemon
    daemon.close()


@pytest.fixture
def place(daemon, tmp_path):
    place = DockerPlace(daemon, tmp_path)
    yield place
    place.close()


@pytest.fixture
def own_place(tmp_path):
    """A place whose daemon the test may kill."""
    daemon = Daemon()
    place = DockerPlace(daemon, tmp_path)
    yield place
    place.engine.close()
    daemon.close()
