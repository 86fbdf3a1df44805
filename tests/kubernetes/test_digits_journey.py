"""The example of the README, unchanged but for where its steps run: from a volume, over two clusters and this machine."""

import shutil
import subprocess
import sys

import pytest

from tests.journeys.product import ROOT
from tests.kubernetes import manifests
from tests.kubernetes.agent_image import LEARNING_IMAGE, write_learning_image
from tests.kubernetes.attached_product import attached_product
from tests.kubernetes.kwok import add_node, gpu_node
from tests.kubernetes.provisioner import STORAGE_CLASS
from tests.kubernetes.rbac import grant, manifests_for

EXAMPLE = ROOT / "examples/digits"
HERE = "compute: [this-machine.small]"
COMPUTE = {
    "prepare": "compute: [lab-k8s.learning]",
    "train": "compute: [{template: full-k8s.gpus, wait: 1s}, lab-k8s.learning]",
    "evaluate": HERE,
}
# Reads on the cluster what a step on this machine has left.
REPORT = """
  - name: report
    command: python -c "import json, nearline; print(len(json.load(open(nearline.input('evaluate') / 'confusion.json'))))"
    after: [evaluate]
    compute: [lab-k8s.learning]
"""


@pytest.fixture
def clusters(cluster, agents, trident, control_plane, tmp_path):
    """The product with the cluster `lab-k8s`, which has volumes, and `full-k8s`, whose one GPU is taken."""
    cluster.node.import_image(write_learning_image(tmp_path))
    volumes = ["--storage-class", STORAGE_CLASS, "--cache-size", "20GB"]
    with attached_product(cluster, tmp_path, agents, *volumes) as (product, _):
        shape = {"cpu_millicores": 100, "memory_bytes": 2**29}
        product.api("POST", "/compute/templates", {"resource": "lab-k8s", "name": "learning", **shape})
        attach_full_cluster(product, control_plane, tmp_path)
        product.api("POST", "/compute/templates", {"resource": "full-k8s", "name": "gpus", "gpu_milli": 1000, **shape})
        product.api("POST", "/projects", {"name": "demo"})
        yield product
        control_plane.api.delete("/api/v1/nodes/full")
        control_plane.api.delete("/api/v1/namespaces/tests/pods/main")


def attach_full_cluster(product, control_plane, folder):
    """Attach a cluster as `full-k8s`, whose one GPU a pod of somebody else holds."""
    namespace = control_plane.create_namespace("full", enforce="restricted")
    grant(control_plane, manifests_for(namespace))
    add_node(control_plane, gpu_node("full", gpus=1))
    gpu = {"limits": {"nvidia.com/gpu": "1"}}
    environment = [{"name": "SIMULATED_END", "value": "never"}]
    foreign = manifests.pod(manifests.container("true", resources=gpu, env=environment))
    control_plane.api.create("/api/v1/namespaces/tests/pods", foreign)
    control_plane.api.wait("/api/v1/namespaces/tests/pods/main", lambda pod: pod["status"]["phase"] == "Running")
    kubeconfig = folder / "full.kubeconfig"
    kubeconfig.write_text(control_plane.kubeconfig_of("nearline", namespace=namespace))
    where = ["--kubeconfig", str(kubeconfig), "--namespace", namespace]
    product.cli("compute", "attach", "full-k8s", *where, "--agent-image", "agent", cwd=folder)


def write_flow(folder):
    """Write the example with other places for its steps, and one more step."""
    folder.mkdir()
    for script in EXAMPLE.glob("*.py"):
        shutil.copy(script, folder)
    head, *steps = (EXAMPLE / "flow.yaml").read_text().split("  - name: ")
    placed = [step.replace(HERE, COMPUTE[step.split("\n")[0]]) for step in steps]
    text = "  - name: ".join([head, *placed]) + REPORT
    text = text.replace("    command: python", f"    image: {LEARNING_IMAGE}\n    command: python")
    (folder / "flow.yaml").write_text(text)


def test_the_digits_are_learned_from_a_volume_by_pods_of_the_cluster_that_has_capacity(cluster, clusters, tmp_path):
    product = clusters
    subprocess.run([sys.executable, EXAMPLE / "write_dataset.py", tmp_path / "digits"], check=True)
    product.cli("data", "init", "--project", "demo", cwd=tmp_path / "digits")
    product.cli("data", "sync", cwd=tmp_path / "digits")
    write_flow(tmp_path / "flow")

    run = product.cli_json("flow", "run", "flow.yaml", "--project", "demo", "--wait", cwd=tmp_path / "flow")

    assert run["state"] == "succeeded"
    steps = {step["label"]: step for step in run["steps"]}
    assert {label: step["template"] for label, step in steps.items()} == {
        "prepare": "lab-k8s.learning",
        "train C=1": "lab-k8s.learning",
        "train C=10": "lab-k8s.learning",
        "train C=100": "lab-k8s.learning",
        "evaluate": "this-machine.small",
        "report": "lab-k8s.learning",
    }
    trained = steps["train C=10"]
    assert [tried["template"] for tried in trained["decision"]["tried"]] == ["full-k8s.gpus"]
    (copy,) = product.api("GET", "/cache/commits")["items"]
    assert (copy["site"], copy["state"], copy["files_done"]) == ("lab-k8s", "ready", 1797)

    cluster.kill_api_server()
    try:
        log = product.cli("run", "logs", run["id"], "report", cwd=tmp_path).stdout
        assert log.splitlines()[-1].endswith("10")  # classes of digits
        summary = product.api("GET", f"/experiments/{trained['experiment_id']}/artifacts/summary.json")
        assert summary["C"] == 10
        assert summary["validation_accuracy"] > 0.9
    finally:
        cluster.start_api_server()
