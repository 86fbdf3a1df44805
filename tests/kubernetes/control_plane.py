"""A Kubernetes control plane on free loopback ports: etcd, API server, controller manager and scheduler.

Each control plane has ports and a folder of its own, so that several can run side by side. There is no node: kwok.py
simulates some, node.py runs a real one.
"""

import base64
import contextlib
import csv
import json
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.kubernetes.api import Api
from tests.kubernetes.processes import Programs
from tests.kubernetes.programs import program
from tests.ports import reserve_port

SERVICE_RANGE = "10.0.0.0/24"


@dataclass(frozen=True)
class User:
    """Whom the API server knows by a token that does not expire."""

    name: str
    groups: str
    token: str


class ControlPlane:
    """A running control plane. `kubeconfig` is the cluster admin's and holds its data inline.

    Pods are told that the API server is at `address`. Services have addresses in the network `services`.
    """

    namespace = "tests"

    def __init__(self, folder: Path, *, node: str = "", node_grace_s: int = 50, audited: str = "") -> None:
        """`node` names a node whose kubelet may connect with `node_kubeconfig`.

        A node that was not heard of for `node_grace_s` is lost. What the user `audited` asks is in `audit_log`, a line
        of JSON for each call.
        """
        self.folder = folder
        self.address = "127.0.0.1"
        self.services = SERVICE_RANGE
        self.kubeconfig = folder / "admin.kubeconfig"
        self.node_kubeconfig = folder / "node.kubeconfig"
        self.audit_log = folder / "audit.log"
        self.port = reserve_port()
        self.server = f"https://127.0.0.1:{self.port}"
        (folder / "logs").mkdir()
        self.programs = Programs(folder / "logs")
        self._admin = User("admin", "system:masters", secrets.token_urlsafe())
        self._node = User(f"system:node:{node}", "system:nodes", secrets.token_urlsafe())
        self._node_grace_s = node_grace_s
        self._audited = audited
        self._etcd = f"http://127.0.0.1:{reserve_port()}"
        self._etcd_peers = f"http://127.0.0.1:{reserve_port()}"
        self._connections = contextlib.ExitStack()
        self.api: Api | None = None  # one for all starts: others hold it
        self._certificate = folder / "certs" / "apiserver.crt"

    def start(self) -> None:
        """Start all programs; return when the API server is ready, and `namespace` exists."""
        self._write_keys()
        self.start_api_server()
        for name, user in ((self.kubeconfig, self._admin), (self.node_kubeconfig, self._node)):
            name.write_text(json.dumps(self._kubeconfig(user)))
            name.chmod(0o600)
        controllers = "*,-nodeipam,-cloud-node-lifecycle"
        self._start_controller(
            "kube-controller-manager",
            f"--service-account-private-key-file={self.folder / 'service-accounts.key'}",
            f"--root-ca-file={self._certificate}",
            "--use-service-account-credentials",
            f"--controllers={controllers}",
            f"--node-monitor-grace-period={self._node_grace_s}s",
        )
        self._start_controller("kube-scheduler")
        self.create_namespace(self.namespace)

    def start_api_server(self) -> None:
        """Start etcd and the API server, or start them again on the same data after they were killed."""
        if not self.programs.is_running("etcd"):
            self.programs.start(
                "etcd",
                [
                    program("etcd"),
                    f"--data-dir={self.folder / 'etcd'}",
                    f"--listen-client-urls={self._etcd}",
                    f"--advertise-client-urls={self._etcd}",
                    f"--listen-peer-urls={self._etcd_peers}",
                    f"--initial-advertise-peer-urls={self._etcd_peers}",
                    f"--initial-cluster=default={self._etcd_peers}",
                    "--unsafe-no-fsync",
                    "--log-level=warn",
                ],
            )
        self.programs.start(
            "kube-apiserver",
            [
                program("kube-apiserver"),
                f"--etcd-servers={self._etcd}",
                "--bind-address=127.0.0.1",
                f"--advertise-address={self.address}",
                f"--secure-port={self.port}",
                f"--cert-dir={self._certificate.parent}",
                f"--token-auth-file={self.folder / 'tokens.csv'}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={self.folder / 'service-accounts.pub'}",
                f"--service-account-signing-key-file={self.folder / 'service-accounts.key'}",
                f"--service-cluster-ip-range={self.services}",
                "--authorization-mode=Node,RBAC",
                "--enable-admission-plugins=NodeRestriction",
                "--allow-privileged",
                "--kubelet-preferred-address-types=InternalIP",
                *self._audit_flags(),
            ],
        )
        if self.api is None:
            # The server writes its key last, so the certificate is whole.
            self.programs.wait_until(self._certificate.with_suffix(".key").exists)
            self.api = self._connections.enter_context(Api(self.server, self._certificate, self._admin.token))
        self.programs.wait_until(self.api.is_ready)

    def kill_api_server(self) -> None:
        """Take the API server and its store away, as a power cut would; `start_api_server` brings them back."""
        self.programs.kill("kube-apiserver")
        self.programs.kill("etcd")

    def stop(self) -> None:
        self._connections.close()
        self.programs.stop()

    def create_namespace(self, name: str, **labels: str) -> str:
        """Make a namespace, wait until pods can be created in it, and return its name.

        Labels are given with `_` for `-` after the prefix `pod-security.kubernetes.io/`: `enforce="restricted"`.
        """
        prefixed = {f"pod-security.kubernetes.io/{key.replace('_', '-')}": value for key, value in labels.items()}
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": prefixed}})
        self.api.wait(f"/api/v1/namespaces/{name}/serviceaccounts/default", lambda _: True)
        return name

    def kubectl(self, *arguments: str, manifest: dict | str = "") -> str:
        """Run kubectl as admin in `namespace` and return what it prints; a manifest goes to its standard input.

        Raises subprocess.CalledProcessError, whose `stderr` says why.
        """
        command = [program("kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        try:
            return subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=300).stdout
        except subprocess.CalledProcessError as error:
            error.add_note(error.stderr)
            raise

    def describe(self, namespace: str) -> str:
        """Say what pods and events of a namespace tell, for the message of a test that fails."""
        pods = self.api.list(f"/api/v1/namespaces/{namespace}/pods")
        events = self.api.list(f"/api/v1/namespaces/{namespace}/events")
        lines = [f"pod {pod['metadata']['name']}: {json.dumps(pod['status'])}" for pod in pods]
        return "\n".join([*lines, *(f"{event['reason']}: {event['message']}" for event in events)])

    def kubeconfig_of(self, service_account: str, *, namespace: str = "") -> str:
        """Return a kubeconfig of a service account: what an admin gives to a platform that attaches the cluster."""
        namespace = namespace or self.namespace
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        token = self.api.create(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
        return json.dumps(self._kubeconfig(User(service_account, "", token)))

    def _audit_flags(self) -> list[str]:
        if not self._audited:
            return []
        rules = [{"level": "Metadata", "users": [self._audited], "omitStages": ["RequestReceived", "ResponseStarted"]}]
        policy = self.folder / "audit.json"
        policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
        return [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}"]

    def _start_controller(self, name: str, *flags: str) -> None:
        self.programs.start(
            name,
            [
                program(name),
                f"--kubeconfig={self.kubeconfig}",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                f"--secure-port={reserve_port()}",
                *flags,
            ],
        )

    def _write_keys(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        (self.folder / "service-accounts.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
            )
        )
        (self.folder / "service-accounts.pub").write_bytes(
            key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )
        with (self.folder / "tokens.csv").open("w") as tokens:
            for user in (self._admin, self._node):
                csv.writer(tokens).writerow([user.token, user.name, user.name, user.groups])

    def _kubeconfig(self, user: User) -> dict:
        certificate = base64.b64encode(self._certificate.read_bytes()).decode()
        cluster = {"server": self.server, "certificate-authority-data": certificate}
        context = {"cluster": "test", "user": user.name, "namespace": self.namespace}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user.name, "user": {"token": user.token}}],
            "contexts": [{"name": "test", "context": context}],
        }
