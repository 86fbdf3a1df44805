"""How pods reach what runs on this machine, which listens on loopback, and the Services of their cluster."""

import contextlib
import json
import socket
import subprocess
import threading
from collections.abc import Iterator

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.node import DOMAIN
from tests.kubernetes.programs import program
from tests.ports import reserve_port

_TABLE = "kube-proxy"
_CORE_FILE = """{domain}:53 in-addr.arpa:53 {{
    bind {address}
    kubernetes {domain} in-addr.arpa {{
        kubeconfig {kubeconfig}
    }}
}}
.:53 {{
    bind {address}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


@contextlib.contextmanager
def forwarded(address: str, port: int, *, at: int = 0) -> Iterator[int]:
    """Let pods reach a server that listens on loopback: yield a port of the bridge that leads to it."""
    with socket.create_server((address, at)) as listener:
        threading.Thread(target=_accept, args=(listener, port), daemon=True).start()
        yield listener.getsockname()[1]


@contextlib.contextmanager
def cluster_names(cluster: Cluster) -> Iterator[None]:
    """Let pods of a cluster use the host names that its Services give."""
    core_file = cluster.folder / "Corefile"
    core_file.write_text(_CORE_FILE.format(domain=DOMAIN, address=cluster.address, kubeconfig=cluster.kubeconfig))
    cluster.programs.start("coredns", [program("coredns"), "-conf", core_file])
    try:
        yield
    finally:
        cluster.programs.kill("coredns")


@contextlib.contextmanager
def cluster_network(cluster: Cluster) -> Iterator[None]:
    """Let pods of a cluster use the names and addresses of its Services, the API server's among them.

    Its proxy writes packet rules into a table that this machine has once: one cluster at a time. Rules that a killed
    run left behind are replaced, as the proxy does at its start. Raises RuntimeError where another proxy runs.
    """
    if subprocess.run(["pgrep", "-x", "kube-proxy"], capture_output=True, check=False).returncode == 0:
        raise RuntimeError(f"Another cluster of this machine uses the packet rules `table ip {_TABLE}`.")
    cluster.cleaner.register("table", _TABLE)
    programs, folder = cluster.programs, cluster.folder
    config = folder / "kube-proxy.json"
    settings = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(cluster.kubeconfig)},
        "clusterCIDR": cluster.node.pods,
        "hostnameOverride": cluster.node.name,
        "healthzBindAddress": f"127.0.0.1:{reserve_port()}",
        "metricsBindAddress": f"127.0.0.1:{reserve_port()}",
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
    config.write_text(json.dumps(settings))
    with forwarded(cluster.address, cluster.port, at=cluster.port), cluster_names(cluster):
        programs.start("kube-proxy", [program("kube-proxy"), f"--config={config}"])
        try:
            yield
        finally:
            programs.kill("kube-proxy")
            for family in ("ip", "ip6"):
                subprocess.run(["nft", "delete", "table", family, _TABLE], check=True)


def _accept(listener: socket.socket, port: int) -> None:
    while True:
        try:
            near, _ = listener.accept()
        except OSError:
            if listener.fileno() < 0:  # closed at the end of the test
                return
            continue  # one that was given up before it was taken
        try:
            far = socket.create_connection(("127.0.0.1", port))
        except OSError:
            near.close()
            continue
        for source, target in ((near, far), (far, near)):
            threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        target.close()
