"""Where the programs of a cluster are, and what this machine lacks to run one."""

import os
import shutil
from pathlib import Path

TOOLS = Path(os.environ.get("NEARLINE_KUBE_TOOLS") or Path.home() / ".cache/nearline-kube/bin")
"""Where `make kube-tools` builds to."""

CNI_PLUGINS = Path("/usr/lib/cni")
_CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")
_NODE_PROGRAMS = ("kubelet", "kube-proxy", "coredns", "helm", "gpus")
_NODE_PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "busybox": "busybox-static",
    "ip": "iproute2",
    "nft": "nftables",
    "pgrep": "procps",
}


def program(name: str) -> Path:
    """Return the path of a program that `make kube-tools` built."""
    return TOOLS / name


def missing_for_control_plane() -> str:
    """Return why no control plane can run here; empty when one can."""
    missing = [name for name in _CONTROL_PLANE if not program(name).exists()]
    return f"needs `make kube-tools`: {', '.join(missing)} not built" if missing else ""


def missing_for_node() -> str:
    """Return why no node can run containers here; empty when one can."""
    if reason := missing_for_control_plane():
        return reason
    if unbuilt := [name for name in _NODE_PROGRAMS if not program(name).exists()]:
        return f"needs `make kube-tools`: {', '.join(unbuilt)} not built"
    if os.geteuid() != 0:
        return "needs root: containers are run by a kubelet of this machine"
    missing = [package for name, package in _NODE_PACKAGES.items() if shutil.which(name) is None]
    if not (CNI_PLUGINS / "bridge").exists():
        missing.append("containernetworking-plugins")
    return f"needs packages of Debian: {', '.join(missing)} not installed" if missing else ""
