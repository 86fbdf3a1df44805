"""A text server on the node of a cluster that stands in for NVIDIA's DCGM exporter."""

from collections.abc import Mapping

from tests.kubernetes import manifests
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.rbac import gpu_metrics_for

_APP = "nvidia-dcgm-exporter"


def export_metrics(cluster: Cluster, namespace: str, job_id: str, metrics: Mapping[str, float], **device: str) -> None:
    """Tell what the pod of a job uses of a device with these labels, and let the account read it."""
    for left in cluster.api.list("/api/v1/pods", labelSelector=f"app={_APP}"):  # by another test; a node has one
        path = f"/api/v1/namespaces/{left['metadata']['namespace']}/pods/{left['metadata']['name']}"
        cluster.api.delete(path)
        cluster.api.wait_until_gone(path)
    (pod,) = cluster.api.list(f"/api/v1/namespaces/{namespace}/pods", labelSelector=f"nearline.dev/job={job_id}")
    labels = {**device, "container": "main", "namespace": namespace, "pod": pod["metadata"]["name"]}
    text = ",".join(f'{name}="{value}"' for name, value in labels.items())
    lines = "".join(f"{name}{{{text}}} {value}\n" for name, value in metrics.items())
    serve = [
        "sh",
        "-c",
        "mkdir /tmp/www; printf '%s' \"$0\" > /tmp/www/metrics; exec httpd -f -p 9400 -h /tmp/www",
        lines,
    ]
    scratch = {"name": "tmp", "emptyDir": {}}
    container = manifests.container(*serve, volumeMounts=[{"name": "tmp", "mountPath": "/tmp"}])
    place = {"nodeName": cluster.node.name, "volumes": [scratch], "terminationGracePeriodSeconds": 1}
    exporter = manifests.pod(container, name="exporter", **place)
    exporter["metadata"]["labels"] = {"app": _APP}
    operators = cluster.create_namespace(f"operators-{namespace}")
    objects = gpu_metrics_for(namespace, operators)
    cluster.kubectl("apply", "-f", "-", manifest={"apiVersion": "v1", "kind": "List", "items": objects})
    cluster.api.create(f"/api/v1/namespaces/{operators}/pods", exporter)
