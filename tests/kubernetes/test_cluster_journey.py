"""The product with an attached cluster, from the command line: jobs run in real pods, and what they leave stays."""

import secrets
import socket
import threading
from contextlib import contextmanager

import pytest

from tests.journeys.product import Product
from tests.kubernetes.agent_image import AGENT_IMAGE, write_agent_image
from tests.kubernetes.images import USER_IMAGE
from tests.kubernetes.rbac import manifests_for

FLOW = """
flow: digits
steps:
  - name: prepare
    command: echo 7 > $NEARLINE_OUTPUT/seed
    compute: [lab-k8s.small]
  - name: train
    command: sh train.sh
    after: [prepare]
    compute: [lab-k8s.small]
"""


@contextmanager
def forwarded(address: str, port: int):
    """Let pods reach a server that listens on loopback: yield a port of the bridge that leads to it."""
    with socket.create_server((address, 0)) as listener:
        threading.Thread(target=_accept, args=(listener, port), daemon=True).start()
        yield listener.getsockname()[1]


def _accept(listener: socket.socket, port: int) -> None:
    while True:
        try:
            near, _ = listener.accept()
        except OSError:  # closed at the end of the test
            return
        far = socket.create_connection(("127.0.0.1", port))
        for source, target in ((near, far), (far, near)):
            threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        target.close()


@pytest.fixture
def attached(cluster, tmp_path):
    """A product with a cluster attached as `lab-k8s`, and a template `lab-k8s.small`."""
    cluster.node.import_image(write_agent_image(tmp_path))
    namespace = cluster.create_namespace(f"jobs-{secrets.token_hex(4)}", enforce="restricted")
    objects = {"apiVersion": "v1", "kind": "List", "items": manifests_for(namespace)}
    cluster.kubectl("apply", "-f", "-", manifest=objects)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(cluster.kubeconfig_of("nearline", namespace=namespace))
    product = Product(tmp_path / "home")
    with forwarded(cluster.node.address, product.port) as port:
        product.environment["NEARLINE_PUBLIC_URL"] = f"http://{cluster.node.address}:{port}"
        product.environment["NEARLINE_ALLOWED_HOSTS"] = "*"
        product.start()
        try:
            options = ["--kubeconfig", str(kubeconfig), "--namespace", namespace, "--agent-image", AGENT_IMAGE]
            settings = ["--image", USER_IMAGE, "--set", "pull_policy=Never"]
            product.cli("compute", "attach", "lab-k8s", *options, *settings, cwd=tmp_path)
            shape = {"resource": "lab-k8s", "name": "small", "cpu_millicores": 100, "memory_bytes": 2**26}
            product.api("POST", "/compute/templates", shape)
            yield product
        finally:
            product.stop()


def ended_job(product, name):
    def read():
        return product.api("GET", f"/compute/jobs/{name}")

    return product.wait_for(read, lambda job: job["state"] not in {"pending", "starting", "running", "stopping"})


def test_jobs_and_flows_run_in_pods_and_what_they_leave_is_readable_without_the_cluster(cluster, attached, tmp_path):
    product = attached
    product.api("POST", "/projects", {"name": "demo"})
    submission = {"project": "demo", "template": "lab-k8s.small", "name": "by-hand"}
    product.api("POST", "/compute/jobs", {**submission, "command": "echo hello; echo 42 > $NEARLINE_OUTPUT/answer"})

    job = ended_job(product, "by-hand")

    assert (job["state"], job["reason"], job["node"]) == ("succeeded", "", cluster.node.name)
    stored = product.wait_for(lambda: product.api("GET", "/compute/jobs/by-hand/log"), lambda log: log["is_complete"])
    assert stored["text"] == "hello\n"

    (tmp_path / "flow").mkdir()
    (tmp_path / "flow/train.sh").write_text("cat $NEARLINE_INPUT/prepare/seed > $NEARLINE_OUTPUT/model; echo trained\n")
    (tmp_path / "flow/flow.yaml").write_text(FLOW)
    run = product.cli_json("flow", "run", "flow.yaml", "--project", "demo", "--wait", cwd=tmp_path / "flow")

    assert run["state"] == "succeeded"

    cluster.kill_api_server()
    try:
        lost = product.wait_for(
            lambda: {item["name"]: item for item in product.api("GET", "/compute/resources")["items"]}["lab-k8s"],
            lambda resource: resource["state"] == "unreachable",
        )
        assert "does not answer" in lost["error"]
        assert product.api("GET", "/compute/jobs/by-hand/log")["text"] == "hello\n"
        assert product.api("GET", "/compute/jobs/by-hand")["state"] == "succeeded"
    finally:
        cluster.start_api_server()
