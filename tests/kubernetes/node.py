"""A real node on this machine: kubelet and containerd, which run pods.

It lives in process and mount namespaces of its own and has its own /run and /var. The kernel ends everything in them,
pods too, when the process is killed that holds the namespaces. The network is the machine's: pods hang on a bridge whose address is the
node's, and reach programs of the machine under it. Needs root.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.kubernetes import images
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kwok import is_schedulable
from tests.kubernetes.processes import DIES_WITH_PARENT, Cleaner
from tests.kubernetes.programs import CNI_PLUGINS, program
from tests.ports import reserve_port

DOMAIN = "cluster.local"
CGROUPS = Path("/sys/fs/cgroup")
DEVICES = Path("/sys/class/net")

# Paths below /run and /var are the node's own.
_ENTER = """set -e
mount --bind "$1/run" /run
mount --bind "$1/var" /var
mount --make-rshared /
containerd --config "$1/containerd.toml" &
wait
"""
_CONTAINERD = """version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause_image}"
restrict_oom_score_adj = true # lowering a score needs a capability that root may lack
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{folder}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"""


class Node:
    """A node of a control plane. `address` is where its pods reach programs of this machine."""

    def __init__(self, control_plane: ControlPlane, name: str, cleaner: Cleaner) -> None:
        self.name = name
        self._control_plane = control_plane
        self._programs = control_plane.programs
        self._folder = control_plane.folder / "node"
        self._cleaner = cleaner
        self._socket = self._folder / "run/containerd/containerd.sock"
        self._cgroup = f"nearline-{control_plane.folder.name}"
        self._bridge, self.address, self.pods, self.services = "", "", "", ""

    def start(self) -> None:
        """Start the node and wait until pods can be placed on it. `PAUSE_IMAGE` and `USER_IMAGE` are there."""
        for name in ("run", "var/lib/kubelet", "var/log", "var/tmp", "cni", "images"):
            (self._folder / name).mkdir(parents=True)
        (self._folder / "var/run").symlink_to("/run")
        self._make_control_groups()
        self._write_configuration()
        self._start_containerd()
        for archive in (
            images.write_pause_image(self._folder / "images"),
            images.write_user_image(self._folder / "images"),
        ):
            self.import_image(archive)
        self.start_kubelet()

    def start_kubelet(self) -> None:
        """Start the kubelet, or start it again after `kill_kubelet`."""
        self._start_inside(
            "kubelet",
            f"--config={self._folder / 'kubelet.json'}",
            f"--kubeconfig={self._control_plane.node_kubeconfig}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
        )
        self._control_plane.api.wait(f"/api/v1/nodes/{self.name}", is_schedulable)

    @contextmanager
    def gpus(self, *devices: str, resource: str = "nvidia.com/gpu") -> Iterator[None]:
        """Let the node have devices, which are none: by a device plugin that tells containers which ones they got."""
        self._start_inside("gpus", resource, *devices)
        self._wait_for(resource, len(devices))
        try:
            yield
        finally:
            self._programs.kill("gpus")
            self._wait_for(resource, 0)

    def _wait_for(self, resource: str, amount: int) -> None:
        path = f"/api/v1/nodes/{self.name}"
        self._control_plane.api.wait(path, lambda node: node["status"]["allocatable"].get(resource) == str(amount))

    def _start_inside(self, name: str, *arguments: object) -> None:
        """Start one of our programs in the namespaces of the node."""
        enter = ["nsenter", f"--target={self._init_process()}", "--pid", "--mount", *DIES_WITH_PARENT]
        self._programs.start(name, [*enter, program(name), *arguments])

    def kill_kubelet(self) -> None:
        """Take the kubelet away; pods run on, as behind a broken network."""
        self._programs.kill("kubelet")

    def kill(self) -> None:
        """End the node with all pods, as a power cut would."""
        self._programs.kill("kubelet")
        self._programs.kill("containerd")

    @property
    def bridge_index(self) -> int:
        """The number that the kernel gave the bridge, and gives to no other device."""
        return int((DEVICES / self._bridge / "ifindex").read_text())

    def import_image(self, archive: Path) -> None:
        """Make an image available to pods of this node."""
        self._ctr("images", "import", "--no-unpack", archive)

    def images(self) -> list[str]:
        """Return the names of the images that are there."""
        return self._ctr("images", "ls", "-q").split()

    def _ctr(self, *arguments: object) -> str:
        command = ["ctr", f"--address={self._socket}", "--namespace=k8s.io", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=900).stdout

    def _start_containerd(self) -> None:
        namespaces = ["unshare", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child"]
        self._programs.start("containerd", [*namespaces, "sh", "-c", _ENTER, "node", self._folder])
        self._programs.wait_until(self._answers)

    def _answers(self) -> bool:
        with suppress(subprocess.CalledProcessError):  # a busy machine may take longer than it waits for a connection
            return self._socket.exists() and bool(self._ctr("version"))
        return False

    def _init_process(self) -> int:
        """Return the first process of the node's namespaces."""
        holder = self._programs.pid("containerd")
        (child,) = Path(f"/proc/{holder}/task/{holder}/children").read_text().split()
        return int(child)

    def make_bridge(self) -> None:
        """Take the first number whose bridge nobody has; creating the bridge is what claims it.

        It comes before `start`: the API server must know the addresses of the node and of services.
        """
        for number in range(256):
            bridge, network = f"nlkube{number}", f"10.231.{number}"
            if _ip("link", "add", bridge, "type", "bridge"):
                self._cleaner.register("bridge", bridge)
                self._bridge, self.address, self.pods = bridge, f"{network}.1", f"{network}.0/24"
                self.services = f"10.232.{number}.0/24"
                _ip("address", "add", f"{self.address}/24", "dev", bridge, check=True)
                _ip("link", "set", bridge, "up", check=True)
                return
        raise RuntimeError("No bridge could be made: `ip link add nlkube0 type bridge` is refused.")

    def _make_control_groups(self) -> None:
        self._cleaner.register("cgroup", self._cgroup)
        for root in _hierarchies():
            group = root / self._cgroup
            group.mkdir()
            for setting in (
                "cpuset.cpus",
                "cpuset.mems",
            ):  # empty in a new group of version 1, which then takes no process
                if root.name == "cpuset":
                    (group / setting).write_text((root / setting).read_text())

    def _write_configuration(self) -> None:
        (self._folder / "containerd.toml").write_text(
            _CONTAINERD.format(pause_image=images.PAUSE_IMAGE, plugins=CNI_PLUGINS, folder=self._folder)
        )
        ranges = [[{"subnet": self.pods, "gateway": self.address}]]
        bridge = {
            "type": "bridge",
            "bridge": self._bridge,
            "isGateway": True,
            "ipam": {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]},
        }
        network = {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}
        (self._folder / "cni" / "pods.conflist").write_text(json.dumps(network))
        (self._folder / "resolv.conf").write_text("")
        kubelet = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "healthzPort": reserve_port(),
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "resolvConf": str(self._folder / "resolv.conf"),
            "clusterDNS": [self.address],
            "clusterDomain": DOMAIN,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._cgroup}",
            "enforceNodeAllocatable": [],
            "oomScoreAdj": 0,
            "failSwapOn": False,
            # The machine's disk may be full for reasons of its own.
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
            "imageGCHighThresholdPercent": 100,
        }
        (self._folder / "kubelet.json").write_text(json.dumps(kubelet))


def _hierarchies() -> Iterator[Path]:
    """Yield the control group file systems: one of version 2, or one for each controller of version 1."""
    if (CGROUPS / "cgroup.controllers").exists():
        yield CGROUPS
    else:
        yield from (
            root for root in CGROUPS.iterdir() if root.is_dir() and not root.is_symlink() and root.name != "unified"
        )


def _ip(*arguments: str, check: bool = False) -> bool:
    return subprocess.run(["ip", *arguments], stderr=subprocess.DEVNULL, check=check).returncode == 0
