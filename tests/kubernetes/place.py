"""A namespace of a cluster as a place where jobs run, with a stand-in for the platform that pods speak with."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from urllib3 import BaseHTTPResponse

from compute.adapters.kubernetes.driver import KubernetesDriver
from compute.adapters.kubernetes.manifests import PodSettings, build_checkpoint_claim, checkpoint_claim, object_name
from compute.adapters.output_folder import OutputFolder
from compute.engine.job_spec import Mount, Tree
from compute.engine.ports import GpuShare, JobReport, Launch
from core.kubernetes.gateway import Gateway
from core.kubernetes.kubeconfig import read_kubeconfig
from tests.contracts.compute_driver import DEADLINE_S, Place, make_launch, read_output, write_smi
from tests.kubernetes.agent_image import AGENT_IMAGE
from tests.kubernetes.api import ANSWER_S
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.images import USER_IMAGE
from tests.kubernetes.provisioner import STORAGE_CLASS, Provisioner
from tests.kubernetes.rbac import grant, manifests_for
from tests.kubernetes.stand_in_platform import StandInPlatform

QUICK = "mkdir /output/deep; echo 42 > /output/deep/answer.txt; touch /output/empty; echo one; echo two"


class CountingGateway(Gateway):
    """Counts what is asked, but for watches: they begin in a thread of their own, and again after a minute or two."""

    questions = 0

    def _send(self, method: str, path: str, query: Mapping[str, str], *arguments, **options) -> BaseHTTPResponse:
        self.questions += "watch" not in query
        return super()._send(method, path, query, *arguments, **options)


class KubernetesPlace(Place):
    """A namespace of a cluster whose node runs pods."""

    def __init__(self, cluster, namespace, platform, tmp_path) -> None:
        self.cluster, self.namespace, self.platform = cluster, namespace, platform
        self._tmp_path = tmp_path
        # As the account of deploy/rbac, so that what it may do is all that is needed.
        grant(cluster, manifests_for(namespace))
        self._config = read_kubeconfig(cluster.kubeconfig_of("nearline", namespace=namespace))
        self.settings = PodSettings(
            namespace=namespace,
            resource=namespace,
            platform_url=platform.url,
            agent_image=AGENT_IMAGE,
            pull_policy="Never",
            grace_s=30,
        )
        self.restart()

    def make(self, name: str, command: str, **spec) -> Launch:
        launch = make_launch(name, command, **({"image": USER_IMAGE} | spec))
        return replace(launch, node_name=self.cluster.node.name, cpu_millicores=50, memory_bytes=64 * 2**20)

    def start(self, launch: Launch) -> Launch:
        self.driver.start(launch)
        return launch

    def start_quick(self, name: str) -> Launch:
        return self.start(self.make(name, QUICK))

    def start_endless(self, name: str) -> Launch:
        return self.start(self.make(name, "exec sleep 600"))

    def start_with_gpu(self, name: str) -> None:
        """Start a job that is given one of the devices of the node, in whose image `nvidia-smi` is found."""
        code = self._tmp_path / "code"
        code.mkdir()
        write_smi(code)
        self.platform.trees["code/code"] = code
        launch = self.make(name, "exec sleep 600", code=Mount("code", Tree("ds_1", "r1")), env={"PATH": "/work:/bin"})
        self.start(replace(launch, gpus=(GpuShare(0, 1000),)))

    def start_server(self, name: str) -> int:
        self.start(self.make(name, "echo 42 > answer; exec httpd -f -p 8080"))
        return 8080

    def wait_for_reason(self, name: str, matches: Callable[[str], bool]) -> JobReport:
        """Wait for what a report says: a driver tells it a moment after the cluster knows it."""
        deadline = time.monotonic() + DEADLINE_S
        while (report := self.report(name)) is None or not matches(report.reason):
            assert time.monotonic() < deadline, report
            self.driver.wait_for_news(0.1)
        return report

    def read_whole_log(self, name: str) -> str:
        """Return the log of an ended job once all of it is here: whoever followed a job to its end reads it first."""
        deadline = time.monotonic() + DEADLINE_S
        while not (chunk := self.driver.read_log(name, 0, 1_000_000)).is_complete:
            assert time.monotonic() < deadline, chunk
            self.driver.wait_for_news(0.1)
        return chunk.data.decode()

    def wait_until_gone(self, name: str) -> None:
        self.cluster.api.wait_until_gone(self.path(name))

    def restart(self) -> None:
        """Begin again with nothing of what the last one kept on this host."""
        self.gateway = CountingGateway(self._config, answer_s=ANSWER_S)
        self.driver = KubernetesDriver(
            self.gateway,
            self.settings,
            folder=self._tmp_path / secrets.token_hex(4),
            outputs=self.platform,
            sign_attempt=lambda launch: launch.name,
        )

    def keep_checkpoints(self, trident: Provisioner) -> None:
        """Keep checkpoint folders from now on, on volumes of the stand-in for Trident. `ckpt_1` has its volume."""
        self.trident = trident
        self.settings = replace(self.settings, storage_class=STORAGE_CLASS, checkpoint_bytes=2**30)
        self.restart()
        claim = build_checkpoint_claim(self.settings, "ckpt_1")
        self.cluster.api.create(f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims", claim)
        self.cluster.api.wait(self._claim_path(), lambda found: found.get("status", {}).get("phase") == "Bound")

    def store_checkpoint(self, content: str) -> None:
        folder = self._tmp_path / "stored"
        folder.mkdir()
        (folder / "steps").write_text(content)
        self.platform.trees["checkpoint/r1"] = folder

    def read_checkpoint(self) -> dict[str, bytes]:
        found = self.cluster.api.get(self._claim_path())
        return read_output(OutputFolder(self.trident.folder_of(found["spec"]["volumeName"]) / "files"))

    def _claim_path(self) -> str:
        claim = checkpoint_claim(self.settings, "ckpt_1")
        return f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims/{claim}"

    def path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{object_name(self.settings, name)}"

    def close(self) -> None:
        for pod in self.cluster.api.list(f"/api/v1/namespaces/{self.namespace}/pods"):
            path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
            self.gateway.patch(path, {"metadata": {"finalizers": None}})
            self.gateway.delete(path, grace_s=1)


@contextmanager
def open_place(cluster: Cluster, folder: Path) -> Iterator[KubernetesPlace]:
    """Make a namespace for one test, which takes only restricted pods; AGENT_IMAGE must be on the node."""
    namespace = cluster.create_namespace(f"jobs-{secrets.token_hex(4)}", enforce="restricted")
    with StandInPlatform(cluster.node.address, folder / "outputs").running() as platform:
        place = KubernetesPlace(cluster, namespace, platform, folder)
        yield place
        place.close()
