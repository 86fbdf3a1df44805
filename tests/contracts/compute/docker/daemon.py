"""A real Docker daemon of its own on this machine, with a busybox image and no network.

It lives in process and mount namespaces of its own. The kernel ends everything in them, containers too, when the
process is killed that holds the namespaces. Needs root.
"""

import os
import shutil
import tempfile
from pathlib import Path

import httpx
import pytest

from tests.contracts.compute.docker.certificates import write_certificates
from tests.kubernetes import images
from tests.kubernetes.processes import Cleaner, Programs
from tests.ports import reserve_port

USER_IMAGE = images.USER_IMAGE
_NAMESPACES = ("unshare", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child")
_CGROUPS = Path("/sys/fs/cgroup")


class Daemon:
    """One daemon. `url` is its socket; at `https_url` it lets in clients with a certificate."""

    def __init__(self) -> None:
        if os.getuid() != 0 or shutil.which("dockerd") is None or shutil.which("busybox") is None:
            pytest.skip("needs a Docker daemon: as root, `apt install docker.io busybox-static`")
        # Paths of sockets are short.
        self.folder = Path(tempfile.mkdtemp(prefix="nearline-docker-"))
        self.socket = self.folder / "docker.sock"
        self.url = f"unix://{self.socket}"
        self.https_url = f"https://127.0.0.1:{reserve_port()}"
        self._certificates = self.folder / "certificates"
        write_certificates(self._certificates)
        self._cgroup = self.folder.name
        self._cleaner = Cleaner()
        self._cleaner.register("folder", self.folder)
        self._cleaner.register("cgroup", self._cgroup)
        self._programs = Programs(self.folder)
        self.start()
        self._load(images.write_user_image(self.folder / "images"))

    def start(self) -> None:
        options = {
            "--host": self.url,
            "--data-root": self.folder / "data",
            "--exec-root": self.folder / "exec",
            "--pidfile": self.folder / "pid",
            "--cgroup-parent": f"/{self._cgroup}",
            "--bridge": "none",
            "--iptables": "false",
            "--ip6tables": "false",
            "--oom-score-adjust": 0,  # lowering a score needs a capability that root may lack
        }
        flags = [f"{name}={value}" for name, value in options.items()]
        flags += ["--tlsverify", f"--host={self.https_url.replace('https', 'tcp')}"]
        for name, file in (("tlscacert", "ca"), ("tlscert", "daemon"), ("tlskey", "daemon-key")):
            flags.append(f"--{name}={self._certificates / file}.pem")
        # Their numbers mean other processes in the namespace of this one.
        for stale in (self.socket, self.folder / "pid", self.folder / "exec/containerd/containerd.pid"):
            stale.unlink(missing_ok=True)
        self._programs.start("dockerd", [*_NAMESPACES, "dockerd", *flags])
        self._programs.wait_until(self._answers)

    def pem(self, name: str) -> str:
        """Return a certificate or key: of `ca`, `client`, `stranger`."""
        return (self._certificates / f"{name}.pem").read_text()

    def kill(self) -> None:
        """End the daemon with all its containers, as a power cut would."""
        self._programs.kill("dockerd")

    def close(self) -> None:
        self.kill()
        self._cleaner.clean()

    def _answers(self) -> bool:
        try:
            return self._ask("GET", "/_ping").is_success
        except httpx.TransportError:
            return False

    def _load(self, archive: Path) -> None:
        self._ask("POST", "/images/load", content=archive.read_bytes()).raise_for_status()

    def _ask(self, method: str, path: str, **options) -> httpx.Response:
        transport = httpx.HTTPTransport(uds=str(self.socket), verify=False)  # no TLS: no certificates are read
        with httpx.Client(transport=transport, timeout=60) as client:
            return client.request(method, f"http://docker{path}", **options)
