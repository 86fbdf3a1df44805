"""Simulated nodes: kwok says what a kubelet would say about them and about their pods, and runs nothing.

`stages.yaml` tells what it says, and which environment variables of a pod change it.
"""

from pathlib import Path

from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.programs import program
from tests.ports import reserve_port

SIMULATED = {"kwok.x-k8s.io/node": "fake"}


def start_kwok(control_plane: ControlPlane) -> None:
    """Drive the nodes that `gpu_node` describes; a node without their annotation is left to its own kubelet."""
    ((key, value),) = SIMULATED.items()
    port = reserve_port()
    control_plane.programs.start(
        "kwok",
        [
            program("kwok"),
            f"--kubeconfig={control_plane.kubeconfig}",
            f"--config={Path(__file__).with_name('stages.yaml')}",
            f"--manage-nodes-with-annotation-selector={key}={value}",
            "--node-ip=127.0.0.1",
            f"--server-address=127.0.0.1:{port}",
            f"--node-port={port}",  # it answers for the kubelets too: no pod has a log
            "--node-lease-duration-seconds=40",
        ],
    )


def gpu_node(
    name: str, *, gpus: int = 8, product: str = "NVIDIA-A100-SXM4-80GB", memory_mib: int = 81920, **labels: str
) -> dict:
    """Describe a node with GPUs and the labels of NVIDIA's feature discovery."""
    resources = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    described = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.memory": str(memory_mib),
        "nvidia.com/gpu.count": str(gpus),
        **labels,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": SIMULATED, "labels": described},
        "status": {"capacity": resources, "allocatable": resources},
    }


def add_node(control_plane: ControlPlane, node: dict) -> None:
    """Add a simulated node and wait until pods can be placed on it."""
    control_plane.api.create("/api/v1/nodes", node)
    control_plane.api.wait(f"/api/v1/nodes/{node['metadata']['name']}", is_schedulable)


def is_schedulable(node: dict) -> bool:
    conditions = {condition["type"]: condition["status"] for condition in node["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")
